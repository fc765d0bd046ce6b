"""Follows the calls that clip gradients or divide them by a loss scale."""

from __future__ import annotations

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


@dataclass(slots=True, eq=False)
class ClipCalls:
    """``ready`` is called with parameters whose gradients are as the exchange left them, before
    they are changed; ``clipped`` with a report of each call of ``clip_grad_norm_``."""

    ready: Callable[[Sequence[torch.Tensor]], None]
    clipped: Callable[[ClipReport], None]
    shield: Any

    def install(self, undo: ExitStack) -> None:
        for owner in (clip_grad, torch.nn.utils):
            patch = wrap(owner, "clip_grad_norm_", self._clipping, undo)
            private.hide_from_compiler(patch.replacement)
        wrap(torch.amp.GradScaler, "unscale_", self._unscaling, undo)

    def _clipping(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def clip_grad_norm_(parameters: Any, *args: Any, **kwargs: Any) -> Any:
            if not isinstance(parameters, (torch.Tensor, list, tuple)):
                parameters = list(parameters)  # A generator can be read once.
            listed = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
            line = ""
            with self.shield:
                line = calling_line()
                self.ready(listed)
            result = original(parameters, *args, **kwargs)
            with self.shield, private.unobserved():
                limit = kwargs.get("max_norm", args[0] if args else 0.0)
                self.clipped(ClipReport(line, _number(result), float(limit)))
            return result

        return clip_grad_norm_

    def _unscaling(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def unscale_(scaler: Any, optimizer: Any) -> Any:
            with self.shield:
                groups = getattr(optimizer, "param_groups", ())
                self.ready([each for group in groups for each in group["params"]])
            return original(scaler, optimizer)

        return unscale_


def _number(norm: Any) -> float:
    """The norm as a number; of a norm that is spread over ranks this rank's part, because the
    whole would need a collective."""
    local = getattr(norm, "_local_tensor", norm)
    return float(local)
