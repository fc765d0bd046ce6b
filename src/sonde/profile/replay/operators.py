"""A matrix product or convolution again, with another type or with aligned sizes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from sonde.core.graph import OpNode
from sonde.profile.analyse.cost import attribute_values
from sonde.profile.record.stopwatch import compare

AS_IT_IS = "as it is"
ALIGNMENT = 16
_MOST_WASTE = 1.25


def replay_operator(node: OpNode, *, budget_seconds: float = 0.4) -> dict[str, float]:
    """Seconds of one run as it is and of each alternative; empty without an alternative.

    The ways are "float32" for an op in float64, and "aligned" where a size is not a multiple of
    16 but nearly so. Values do not matter, so they are small and random; memory is contiguous.
    """
    if node.type not in _MAKERS or not node.inputs:
        return {}
    shapes = [edge.spec.shape for edge in node.inputs]
    dtype = getattr(torch, node.inputs[-1].spec.dtype, None)
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        return {}
    ways: dict[str, tuple[list[tuple[int, ...]], torch.dtype]] = {}
    if dtype == torch.float64:
        ways["float32"] = (shapes, torch.float32)
    aligned = _aligned(node, shapes)
    if aligned is not None:
        ways["aligned"] = (aligned, dtype)
    if not ways:
        return {}
    attributes = attribute_values(node)
    make = _MAKERS[node.type]
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        runs = {
            name: make([torch.randn(shape, dtype=kind) for shape in sizes], attributes)
            for name, (sizes, kind) in {AS_IT_IS: (shapes, dtype), **ways}.items()
        }
        return compare(runs, budget_seconds=budget_seconds)


def _aligned(node: OpNode, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]] | None:
    """The shapes with every size rounded up; None where nothing changes or too much would."""
    if node.type == "convolution":
        return None
    rounded = [tuple(map(_round_up, shape)) for shape in shapes]
    if rounded == shapes:
        return None
    before, after = (sum(map(math.prod, each)) for each in (shapes, rounded))
    return rounded if after <= _MOST_WASTE * before else None


def _round_up(size: int) -> int:
    return size if size < ALIGNMENT else -(-size // ALIGNMENT) * ALIGNMENT


def _mm(tensors: list[torch.Tensor], _: dict[str, Any]) -> Callable[[], object]:
    return lambda: torch.mm(*tensors)


def _bmm(tensors: list[torch.Tensor], _: dict[str, Any]) -> Callable[[], object]:
    return lambda: torch.bmm(*tensors)


def _addmm(tensors: list[torch.Tensor], _: dict[str, Any]) -> Callable[[], object]:
    return lambda: torch.addmm(*tensors)


def _convolution(tensors: list[torch.Tensor], given: dict[str, Any]) -> Callable[[], object]:
    bias = tensors[2] if len(tensors) > 2 else None
    return lambda: torch.convolution(
        tensors[0],
        tensors[1],
        bias,
        given.get("stride", [1, 1]),
        given.get("padding", [0, 0]),
        given.get("dilation", [1, 1]),
        given.get("transposed", False),
        given.get("output_padding", [0, 0]),
        given.get("groups", 1),
    )


_MAKERS: dict[str, Callable[[list[torch.Tensor], dict[str, Any]], Callable[[], object]]] = {
    "mm": _mm,
    "bmm": _bmm,
    "addmm": _addmm,
    "convolution": _convolution,
}
