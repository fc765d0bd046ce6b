"""Where steps end: the hooks an attached session needs outside its wanted steps.

A step ends when an optimizer's ``step()`` returns, whichever optimizer it is; a ``step()`` called
inside another (a wrapper's) does not count by itself; a GradScaler that skips its optimizer's step
ends a step all the same. With ``step_by="manual"`` only ``sonde.step()`` ends steps.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)


class StepHooks:
    """Tells when optimizers begin and end a step.

    ``began`` and ``ended`` are called with the optimizer round each outermost ``step()``;
    ``skipped`` when a GradScaler left its optimizer's step out.
    """

    def __init__(
        self,
        began: Callable[[torch.optim.Optimizer], None],
        ended: Callable[[torch.optim.Optimizer], None],
        skipped: Callable[[], None],
    ) -> None:
        self._began = began
        self._ended = ended
        self._skipped = skipped
        self._running: list[torch.optim.Optimizer] = []
        self._count = 0

    def install(self, undo: ExitStack) -> None:
        """Register the hooks; ``undo`` removes them."""
        undo.callback(register_optimizer_step_pre_hook(self._before).remove)
        undo.callback(register_optimizer_step_post_hook(self._after).remove)
        for scaler in _scaler_classes():
            self._watch_scaler(scaler, undo)

    def _before(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        if any(running is optimizer for running in self._running):
            # It is stepping already: its earlier step() raised and never came back.
            self._running.clear()
        self._running.append(optimizer)
        self._began(optimizer)

    def _after(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        if not any(running is optimizer for running in self._running):
            return
        while self._running.pop() is not optimizer:
            pass
        if not self._running:
            self._count += 1
            self._ended(optimizer)

    def _watch_scaler(self, scaler: type, undo: ExitStack) -> None:
        original = scaler.__dict__["step"]

        @functools.wraps(original)
        def step(this: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            before = self._count
            result = original(this, optimizer, *args, **kwargs)
            if self._count == before:
                self._count += 1
                self._skipped()
            return result

        scaler.step = step  # type: ignore[attr-defined]
        undo.callback(setattr, scaler, "step", original)


def _scaler_classes() -> list[type]:
    """The GradScaler classes that define ``step`` themselves."""
    return [kind for kind in (torch.amp.GradScaler,) if "step" in kind.__dict__]
