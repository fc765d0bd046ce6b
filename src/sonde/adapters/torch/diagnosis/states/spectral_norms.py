"""Measures how far the spectral norm that a module divides by is from the largest singular value.

Only a measurement tells whether the vectors of the power iteration are those of the weights: they
may come from training, from a checkpoint, from a copy of a trained module, or from the iterations
that ``parametrizations.spectral_norm`` runs when it is made.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.nn.utils import parametrizations
from torch.nn.utils.spectral_norm import SpectralNorm

ITERATIONS = 30
MOST_ELEMENTS = 1 << 22


def spectral_norms(module: nn.Module) -> Iterator[tuple[str, float, float]]:
    """For each weight with a spectral norm: the name of the vector of its power iteration, the norm
    that eval mode divides by, and a lower bound of the largest singular value."""
    for hook in module._forward_pre_hooks.values():
        if isinstance(hook, SpectralNorm):
            weight = hook.reshape_weight_to_matrix(getattr(module, f"{hook.name}_orig"))
            left, right = getattr(module, f"{hook.name}_u"), getattr(module, f"{hook.name}_v")
            yield from _measured(f"{hook.name}_u", weight, left, right)
    kind = getattr(parametrizations, "_SpectralNorm", None)
    listed = getattr(module, "parametrizations", None)
    if kind is None or not isinstance(listed, nn.ModuleDict):
        return
    for name, chain in listed.items():
        first: Any = next(chain.children(), None)
        if isinstance(first, kind) and hasattr(first, "_u"):
            weight = first._reshape_weight_to_matrix(chain.original)
            yield from _measured(f"parametrizations.{name}.0._u", weight, first._u, first._v)


def _measured(
    name: str, weight: torch.Tensor, left: torch.Tensor, right: torch.Tensor
) -> Iterator[tuple[str, float, float]]:
    if weight.numel() > MOST_ELEMENTS or not weight.is_floating_point():
        return
    matrix, u, v = (each.detach().double().cpu() for each in (weight, left, right))
    used = float(u @ (matrix @ v))
    for _ in range(ITERATIONS):
        v = nn.functional.normalize(matrix.T @ u, dim=0)
        u = nn.functional.normalize(matrix @ v, dim=0)
    yield name, used, float(u @ (matrix @ v))
