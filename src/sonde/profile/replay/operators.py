"""Runs a matrix product or convolution again, with another dtype or with aligned sizes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from sonde.core.graph import OpNode
from sonde.profile.analyse.cost import attribute_values
from sonde.profile.record.stopwatch import AS_IT_IS, compare

_PRODUCTS: dict[str, Callable[..., object]] = {
    "mm": torch.mm,
    "bmm": torch.bmm,
    "addmm": torch.addmm,
}
_ALIGNMENT = 16
_MOST_WASTE = 1.25


def replay_operator(node: OpNode, *, budget_seconds: float = 0.4) -> dict[str, float]:
    """Seconds of one run as it is and of each alternative; empty without an alternative.

    The alternatives are "float32" for an op in float64, and "aligned" if rounding sizes up to
    multiples of 16 adds little. Values do not matter: they are random; memory is contiguous.
    """
    if node.type not in (*_PRODUCTS, "convolution") or not node.inputs:
        return {}
    shapes = [edge.spec.shape for edge in node.inputs]
    dtype = getattr(torch, node.inputs[-1].spec.dtype, None)
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        return {}
    ways = {AS_IT_IS: (shapes, dtype)}
    if dtype == torch.float64:
        ways["float32"] = (shapes, torch.float32)
    aligned = [tuple(map(_round_up, shape)) for shape in shapes]
    before, after = (sum(map(math.prod, each)) for each in (shapes, aligned))
    if node.type in _PRODUCTS and aligned != shapes and after <= _MOST_WASTE * before:
        ways["aligned"] = (aligned, dtype)
    if len(ways) == 1:
        return {}
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        runs = {
            name: _work(node, [torch.randn(shape, dtype=kind) for shape in sizes])
            for name, (sizes, kind) in ways.items()
        }
        return compare(runs, budget_seconds=budget_seconds)


def _round_up(size: int) -> int:
    return size if size < _ALIGNMENT else -(-size // _ALIGNMENT) * _ALIGNMENT


def _work(node: OpNode, tensors: list[torch.Tensor]) -> Callable[[], object]:
    if node.type in _PRODUCTS:
        product = _PRODUCTS[node.type]
        return lambda: product(*tensors)
    given: dict[str, Any] = attribute_values(node)
    return lambda: torch.convolution(
        tensors[0],
        tensors[1],
        tensors[2] if len(tensors) > 2 else None,
        given.get("stride", [1, 1]),
        given.get("padding", [0, 0]),
        given.get("dilation", [1, 1]),
        given.get("transposed", False),
        given.get("output_padding", [0, 0]),
        given.get("groups", 1),
    )
