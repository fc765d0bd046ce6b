"""Follows the ops of one call of a module: reshapes that reorder, differences that cancel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from sonde.adapters.torch.calling_line import caller
from sonde.adapters.torch.diagnosis.losses.cancellation import MadeBy, cancellation
from sonde.adapters.torch.diagnosis.probes.attention import (
    FUSED,
    SOFTMAX,
    WHOLE,
    Attention,
    attention_of,
)
from sonde.core.graph import Source
from sonde.diagnosis.evidence import Number
from sonde.diagnosis.reshapes import reordering

_RESHAPING = ("view", "reshape", "unflatten")
_ADDING = ("add", "__add__", "__radd__", "__iadd__", "add_")
_SQUASHING = ("sigmoid", "tanh", "sigmoid_", "tanh_")
_MASKING = (
    *("mul", "__mul__", "__rmul__", "masked_fill", "masked_fill_", "where", "div", "__truediv__"),
    *("add", "__add__", "dropout", "mul_"),
)
MOST_HOPS = 6


class OpTrace(TorchFunctionMode):
    """``found``: name, line and numbers of each unusual op."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, Source | None, dict[str, Number]]] = []
        self.attentions: list[Attention] = []
        self._squashed = False
        self._made: dict[int, MadeBy] = {}

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", "")
        if name in (*SOFTMAX, FUSED, WHOLE):
            self._attended(name, args, kwargs or {}, result)
        elif name in _SQUASHING and isinstance(result, torch.Tensor) and not self._squashed:
            self._squash(name, result)
        if isinstance(result, torch.Tensor):
            made = MadeBy(name, func, tuple(args), dict(kwargs or {}), result)
            self._made[id(result)] = made
            lost = cancellation(self._made, made)
            if lost is not None:
                self.found.append(("cancellation", caller(), lost))
            if name in _RESHAPING:
                self._reshaped(args[0], result)
            elif name in _ADDING and len(args) == 2:
                self._added(args[0], args[1], result)
        return result

    def _attended(self, name: str, args: Sequence[Any], kwargs: Any, result: Any) -> None:
        source = caller()
        found = attention_of(name, args, kwargs, result, source)
        if found is None:
            return
        self.attentions.append(found)
        if name in SOFTMAX and self._comes_from_softmax(args[0]):
            self.found.append(("softmax-twice", source, {"op": name}))

    def _comes_from_softmax(self, tensor: Any) -> bool:
        """Whether masking and scaling lead from one softmax to the input of another."""
        for _ in range(MOST_HOPS):
            known = self._made.get(id(tensor))
            if known is None or known.result is not tensor:
                return False
            if known.name in SOFTMAX:
                return True
            if known.name not in _MASKING or not known.args:
                return False
            tensor = known.args[0]
        return False

    def _squash(self, name: str, result: torch.Tensor) -> None:
        """The first activation with two flat ends: how much of it lies there."""
        self._squashed = True
        low = 0.0 if name.startswith("sigmoid") else -1.0
        flat = (result <= low + 1e-3) | (result >= 1 - 1e-3)
        share = float(flat.double().mean()) if result.numel() else 0.0
        self.found.append(("activation-flat", caller(), {"op": name, "share": share}))

    def _added(self, left: Any, right: Any, result: torch.Tensor) -> None:
        """Two masks of the lowest number make -inf where each of them alone is finite."""
        if not (isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor)):
            return
        if not result.is_floating_point() or not result.numel():
            return
        lowest = torch.finfo(result.dtype).min
        count = int((torch.isneginf(result) & (left > lowest * 2) & (right > lowest * 2)).sum())
        if count and bool((left <= lowest / 4).any()) and bool((right <= lowest / 4).any()):
            self.found.append(("masks-added", caller(), {"elements": count, "of": result.numel()}))

    def _reshaped(self, before: torch.Tensor, after: torch.Tensor) -> None:
        old, new = tuple(before.shape), tuple(after.shape)
        name = reordering(old, new)
        if name is not None:
            self.found.append((name, caller(), {"before": str(old), "after": str(new)}))
