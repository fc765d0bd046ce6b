"""Differences of large products that leave only rounding errors, compared with float64."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from sonde.adapters.torch.diagnosis.modules import replaced, tensors_in
from sonde.diagnosis.evidence import Number

CANCELLED = 64
"""Units in the last place: a difference below that many is mostly rounding."""
WRONG = 0.5
"""The error of a difference, relative to its value in float64, from which on it is reported."""
MOST_OPS = 10
MOST_ELEMENTS = 1 << 20
_COMBINING = (
    *("sub", "__sub__", "subtract", "rsub", "__rsub__", "add", "__add__", "__radd__"),
    *("addmm", "baddbmm", "cdist"),
)
_PRODUCTS = (
    *("mul", "__mul__", "__rmul__", "multiply", "pow", "__pow__", "square", "matmul", "__matmul__"),
    *("mm", "bmm", "einsum", "addmm", "baddbmm", "inner", "dot", "outer", "norm"),
)
_CARRYING = (
    *("sum", "mean", "div", "__truediv__", "divide", "true_divide", "mul", "__mul__", "__rmul__"),
    *("unsqueeze", "squeeze", "__getitem__", "view", "reshape", "transpose", "t", "expand"),
    *("add", "__add__", "__radd__", "sub", "__sub__", "neg", "__neg__", "expand_as"),
)
"""Ops between a product and the difference: averages, views, factors."""


@dataclass(frozen=True, slots=True)
class MadeBy:
    """The call that computed a tensor."""

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: torch.Tensor


def cancellation(made: dict[int, MadeBy], call: MadeBy) -> dict[str, Number] | None:
    """What is left of a difference, if that is mostly rounding: its operands, both with a product
    behind them, are far larger, and float64 gives another result."""
    result = call.result
    if call.name not in _COMBINING or not result.is_floating_point():
        return None
    if not 0 < result.numel() <= MOST_ELEMENTS or result.dtype == torch.float64:
        return None
    operands = [each for each in tensors_in(call.args) if each.is_floating_point()][:2]
    if len(operands) < 2 or not all(each.numel() for each in operands):
        return None
    epsilon = torch.finfo(result.dtype).eps
    size = float(operands[0].abs().median()) if call.name != "cdist" else 0.0
    ratio = float(result.abs().median()) / size if size else 0.0
    if call.name != "cdist":
        if not size or ratio >= CANCELLED * epsilon:
            return None
        if call.name not in ("addmm", "baddbmm") and not _have_products(made, operands):
            return None
    exact = _in_double(made, result, MOST_OPS)
    value = float(exact.abs().median())
    error = float((exact - result.double()).abs().median())
    if not value or not math.isfinite(error) or error <= WRONG * value:
        return None
    return {"operand": size, "ratio": ratio, "epsilon": epsilon, "exact": value, "error": error}


def _have_products(made: dict[int, MadeBy], operands: Sequence[torch.Tensor]) -> bool:
    return all(_has_product(made, each, MOST_OPS) for each in operands)


def _has_product(made: dict[int, MadeBy], tensor: torch.Tensor, left: int) -> bool:
    call = made.get(id(tensor))
    if call is None or call.result is not tensor or not left:
        return False
    given = [each for each in tensors_in(call.args) if each.is_floating_point()]
    if call.name in _PRODUCTS and (len(given) > 1 or "mul" not in call.name):
        return True
    return call.name in _CARRYING and any(_has_product(made, each, left - 1) for each in given[:2])


def _in_double(made: dict[int, MadeBy], tensor: torch.Tensor, left: int) -> torch.Tensor:
    """``tensor`` computed in float64, from the inputs of the last ``left`` ops that led to it."""
    call = made.get(id(tensor))
    if call is None or call.result is not tensor or not left or _writes(call.name):
        return tensor.double()

    def exact(each: torch.Tensor) -> torch.Tensor:
        return _in_double(made, each, left - 1) if each.is_floating_point() else each

    found = call.function(*replaced(call.args, exact), **replaced(call.kwargs, exact))
    return found if isinstance(found, torch.Tensor) else tensor.double()


def _writes(name: str) -> bool:
    """Whether a function changes its input, as ``add_`` and ``__iadd__`` do."""
    return name.startswith("__i") or (name.endswith("_") and not name.endswith("__"))
