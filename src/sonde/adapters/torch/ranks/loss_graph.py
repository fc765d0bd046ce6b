"""What the graph of the loss tells: the ops of a step, its divisor, the targets it averages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch

from sonde.adapters.torch.ranks.digests import plain
from sonde.ranks.report import RankOp

_MEAN = 1
"""The number that autograd keeps for ``reduction='mean'``."""
_DEEPEST = 6
_MOST_OPS: Final = 20_000
_LEAF: Final = "AccumulateGrad"


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


def ops_of(loss: Any, parameter_name: Callable[[Any], str]) -> tuple[RankOp, ...]:
    """The ops in the order in which they ran. ``parameter_name``: of a leaf, empty if unknown."""
    root = getattr(loss, "grad_fn", None)
    if root is None:
        return ()
    seen = {root}
    waiting = [root]
    found: list[tuple[int, RankOp]] = []
    while waiting and len(found) < _MOST_OPS:
        node = waiting.pop()
        parameter = ""
        for following, _ in node.next_functions:
            if following is None:
                continue
            if following.name().endswith(_LEAF):
                parameter = parameter or parameter_name(following.variable)
            elif following not in seen:
                seen.add(following)
                waiting.append(following)
        metadata = next(iter(node._input_metadata), None)
        shape = () if metadata is None else tuple(int(size) for size in metadata.shape)
        dtype = "" if metadata is None else str(metadata.dtype).removeprefix("torch.")
        name = node.name().rpartition("::")[2].partition("Backward")[0]
        found.append((node._sequence_nr(), RankOp(name, shape, dtype, parameter)))
    return tuple(op for _, op in sorted(found, key=lambda each: each[0]))


def _scalar(node: Any) -> float | None:
    other = getattr(node, "_saved_other", None)
    if not isinstance(other, torch.Tensor) or other.numel() != 1 or other.requires_grad:
        return None
    known = plain(other)
    return None if known is None else float(known)
