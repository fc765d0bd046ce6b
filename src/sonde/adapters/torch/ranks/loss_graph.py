"""What the graph of the loss tells about its scale: its divisor, and the targets it averages."""

from __future__ import annotations

from typing import Any

import torch

from sonde.adapters.torch.ranks.digests import plain

_MEAN = 1
"""The number that autograd keeps for ``reduction='mean'``."""
_DEEPEST = 6


def loss_scale_facts(loss: Any) -> tuple[float, int | None]:
    """The number that the program divides the loss by (1.0: it does not), and over how many
    targets the loss is a mean, None if the graph does not say."""
    divisor = 1.0
    node = getattr(loss, "grad_fn", None)
    for _ in range(_DEEPEST):
        if node is None:
            break
        name = type(node).__name__
        if name.startswith("NllLoss"):
            is_mean = getattr(node, "_saved_reduction", 0) == _MEAN
            total = getattr(node, "_saved_total_weight", None)
            weight = getattr(node, "_saved_weight", None)
            known = is_mean and isinstance(total, torch.Tensor) and weight is None
            return divisor, round(float(total)) if known and total is not None else None
        if name == "DivBackward0":
            divisor *= _scalar(node) or 1.0
        elif name == "MulBackward0":
            divisor /= _scalar(node) or 1.0
        following = [each for each, _ in node.next_functions if each is not None]
        if len(following) != 1:
            break
        node = following[0]
    return divisor, None


def _scalar(node: Any) -> float | None:
    other = getattr(node, "_saved_other", None)
    if not isinstance(other, torch.Tensor) or other.numel() != 1 or other.requires_grad:
        return None
    known = plain(other)
    return None if known is None else float(known)
