"""Follows the calls that clip gradients or divide them by a loss scale."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.utils import clip_grad

from sonde.adapters.torch import private
from sonde.adapters.torch.calling_line import calling_line
from sonde.core.patching import wrap
from sonde.ranks.report import ClipReport

_WITH_NORM = "clip_grads_with_norm_"
_BY_VALUE = "clip_grad_value_"


@dataclass(slots=True, eq=False)
class ClipCalls:
    """``ready`` is called with parameters whose gradients are as the exchange left them, before
    they are changed; ``clipped`` with a report of each call of ``clip_grad_norm_``,
    ``clip_grads_with_norm_`` or ``clip_grad_value_``. ``squares`` of gradients are those of
    `ClipReport`, empty where they are not known or not wanted."""

    ready: Callable[[Sequence[torch.Tensor]], None]
    clipped: Callable[[ClipReport], None]
    squares: Callable[[Sequence[torch.Tensor]], dict[str, float]]
    shield: Any

    def install(self, undo: ExitStack) -> None:
        for owner in (clip_grad, torch.nn.utils):
            for name, make in (("clip_grad_norm_", self._clipping), (_BY_VALUE, self._limiting)):
                patch = wrap(owner, name, make, undo)
                private.hide_from_compiler(patch.replacement)
        if hasattr(torch.nn.utils, _WITH_NORM):
            patch = wrap(torch.nn.utils, _WITH_NORM, self._clipping, undo)
            private.hide_from_compiler(patch.replacement)
        wrap(torch.amp.GradScaler, "unscale_", self._unscaling, undo)

    def _clipping(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def clip(parameters: Any, *args: Any, **kwargs: Any) -> Any:
            listed = _listed(parameters)
            line, before = "", {}
            with self.shield:
                line = calling_line()
                self.ready(listed)
                before = self.squares(listed) if _is_euclidean(args, kwargs) else {}
            result = original(listed, *args, **kwargs)
            with self.shield, private.unobserved():
                limit = kwargs.get("max_norm", args[0] if args else 0.0)
                given = kwargs.get("total_norm", args[1] if len(args) > 1 else 0.0)
                norm = _number(given if result is None else result)
                factor = _factor(before, self.squares(listed)) if before else 0.0
                self.clipped(ClipReport(line, norm, float(limit), before, factor))
            return result

        return clip

    def _limiting(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def clip_values(parameters: Any, *args: Any, **kwargs: Any) -> Any:
            listed = _listed(parameters)
            with self.shield:
                self.ready(listed)
                limit = kwargs.get("clip_value", args[0] if args else 0.0)
                self.clipped(ClipReport(calling_line(), math.nan, float(limit)))
            return original(listed, *args, **kwargs)

        return clip_values

    def _unscaling(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def unscale_(scaler: Any, optimizer: Any) -> Any:
            with self.shield:
                groups = getattr(optimizer, "param_groups", ())
                self.ready([each for group in groups for each in group["params"]])
            return original(scaler, optimizer)

        return unscale_


def _listed(parameters: Any) -> list[torch.Tensor]:
    """As a list: a generator can be read once."""
    return [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)


def _is_euclidean(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether the norm is that of squares; a norm that is given counts as such."""
    given = kwargs.get("norm_type", args[1] if len(args) > 1 else 2.0)
    return isinstance(given, torch.Tensor) or float(given) == 2.0


def _factor(before: dict[str, float], after: dict[str, float]) -> float:
    """By what gradients were multiplied; 0 if they are zero or not finite."""
    was, now = math.fsum(before.values()), math.fsum(after.values())
    return math.sqrt(now / was) if was > 0 and math.isfinite(was) and math.isfinite(now) else 0.0


def _number(norm: Any) -> float:
    """The norm as a number; NaN of one of which each rank has a part, as of the maximum under
    FSDP2: the whole would need a collective."""
    if not all(each.is_replicate() for each in getattr(norm, "placements", ())):
        return math.nan
    return float(getattr(norm, "_local_tensor", norm))
