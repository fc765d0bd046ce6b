"""Follows the ops of one call of a module: reshapes that reorder, differences that cancel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from sonde.adapters.torch.diagnosis.recorder import caller
from sonde.core.graph import Source
from sonde.diagnose.evidence import Number

_SQUARING = ("mul", "__mul__", "pow", "__pow__", "square", "multiply")
_AVERAGING = ("mean", "sum")
_SUBTRACTING = ("sub", "__sub__", "subtract")
_RESHAPING = ("view", "reshape", "unflatten")
CANCELLED = 64
"""Units in the last place: a difference below that many is mostly rounding."""


class OpTrace(TorchFunctionMode):
    """``found``: name, line and numbers of each unusual op."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, Source | None, dict[str, Number]]] = []
        self._made: dict[int, tuple[str, tuple[Any, ...], torch.Tensor]] = {}

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", "")
        if isinstance(result, torch.Tensor):
            self._made[id(result)] = (name, tuple(args), result)
            if name in _RESHAPING:
                self._reshaped(args[0], result)
            elif name in _SUBTRACTING and len(args) == 2:
                self._subtracted(args[0], args[1], result)
        return result

    def _reshaped(self, before: torch.Tensor, after: torch.Tensor) -> None:
        old, new = tuple(before.shape), tuple(after.shape)
        if len(old) < 2 or len(new) < 2:
            return
        swaps = old[0] != old[1] and new[:2] == (old[1], old[0]) and min(old[:2]) > 1
        splits = (
            len(old) == 3
            and len(new) == 4
            and new[0] == old[0]
            and new[2] == old[1] != new[1]
            and new[1] * new[3] == old[2]
            and min(old[1], new[1]) > 1
        )
        if swaps or splits:
            numbers: dict[str, Number] = {"before": str(old), "after": str(new)}
            name = "view-swaps-batch" if swaps else "view-splits-heads"
            self.found.append((name, caller(), numbers))

    def _subtracted(self, left: Any, right: Any, result: torch.Tensor) -> None:
        if not isinstance(left, torch.Tensor) or not isinstance(right, torch.Tensor):
            return
        if not result.is_floating_point() or not result.numel():
            return
        if self._producer(left) not in _AVERAGING or self._producer(right) not in _SQUARING:
            return
        inner = self._made[id(left)][1]
        if not inner or self._producer(inner[0]) not in _SQUARING:
            return
        size = float(left.abs().median())
        ratio = float(result.abs().median()) / size if size else 1.0
        epsilon = torch.finfo(result.dtype).eps
        if ratio < CANCELLED * epsilon:
            self.found.append(
                ("cancellation", caller(), {"operand": size, "ratio": ratio, "epsilon": epsilon})
            )

    def _producer(self, tensor: Any) -> str:
        known = self._made.get(id(tensor))
        return known[0] if known is not None and known[2] is tensor else ""
