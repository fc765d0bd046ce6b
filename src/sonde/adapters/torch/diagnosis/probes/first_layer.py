"""Measures what the first layer with a weight is given: the scale of the data."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from sonde.diagnosis.evidence import Number

MOST_ELEMENTS = 1 << 20


def first_input(
    seen: Sequence[tuple[nn.Module, list[torch.Tensor], list[torch.Tensor]]],
) -> tuple[nn.Module, dict[str, Number]] | None:
    """The first innermost module with a matrix as weight, and the size of its input; None if a
    normalisation or an embedding comes before it."""
    for module, inputs, _ in seen:
        if next(module.children(), None) is not None:
            continue
        weight = getattr(module, "weight", None)
        if weight is None and not list(module.parameters(recurse=False)):
            continue  # An activation, a reshape.
        is_layer = isinstance(weight, torch.Tensor) and weight.dim() >= 2
        is_recurrent = isinstance(module, nn.RNNBase)
        if isinstance(module, (nn.Embedding, nn.EmbeddingBag)) or not (is_layer or is_recurrent):
            return None
        given = next((each for each in inputs if each.is_floating_point() and each.dim() > 1), None)
        return None if given is None else (module, scales(module, given))
    return None


def scales(module: nn.Module, given: torch.Tensor) -> dict[str, Number]:
    """Root mean square of all values, and of the largest and smallest feature."""
    channel = 1 if isinstance(module, nn.modules.conv._ConvNd) else given.dim() - 1
    rows = given.detach().double().movedim(channel, -1).flatten(0, -2)
    rows = rows[: max(1, MOST_ELEMENTS // max(1, rows.shape[1]))]
    sizes = rows.square().mean(0).sqrt()
    spread = rows.std(0, correction=0)
    return {
        "rms": float(rows.square().mean().sqrt()),
        "largest": float(rows.abs().max()),
        "largest_feature": float(sizes.max()),
        "smallest_feature": float(sizes.min()),
        "largest_spread": float(spread.max()),
    }
