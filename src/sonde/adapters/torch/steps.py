"""Where steps end: the hooks an attached session needs outside its wanted steps.

A step ends when an optimizer's ``step()`` returns, whichever optimizer it is; a ``step()`` called
inside another (a wrapper's) does not count by itself; one that raises ends no step; a GradScaler
that skips its optimizer's step ends a step all the same. With ``step_by="manual"`` only
``sonde.step()`` ends steps. Optimizers that step in other threads do not count.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from sonde.adapters.torch import private
from sonde.adapters.torch.scope_stack import running


class StepHooks:
    """Tells when optimizers begin and end a step.

    ``began`` and ``left`` are called with the optimizer round each ``step()``, ``ended`` after the
    outermost one and when a GradScaler left its optimizer's step out; ``elsewhere`` with the name
    of a thread when an optimizer steps in another one than that which made this object. They must
    not raise. ``has_closure``: the optimizer that began last was given one.
    """

    def __init__(
        self,
        began: Callable[[torch.optim.Optimizer], None],
        left: Callable[[torch.optim.Optimizer], None],
        ended: Callable[[], None],
        elsewhere: Callable[[str], None],
    ) -> None:
        self._began = began
        self._left = left
        self._ended = ended
        self._elsewhere = elsewhere
        self._thread = threading.get_ident()
        self._running: list[torch.optim.Optimizer] = []
        self._count = 0
        self.has_closure = False

    def install(self, undo: ExitStack) -> None:
        """Register the hooks; ``undo`` removes them."""
        undo.callback(register_optimizer_step_pre_hook(self._before).remove)
        undo.callback(register_optimizer_step_post_hook(self._after).remove)
        for scaler in _scaler_classes():
            self._watch_scaler(scaler, undo)

    def _before(
        self, optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        if threading.get_ident() != self._thread:
            self._elsewhere(threading.current_thread().name)
            return
        if self._running:
            # Those that raised never came back to tell.
            alive = running(sys._getframe(2))
            self._running = [each for each in self._running if id(each) in alive]
        self._running.append(optimizer)
        closure = kwargs.get("closure", args[1] if len(args) > 1 else None)
        self.has_closure = closure is not None
        self._began(optimizer)

    def _after(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        if threading.get_ident() != self._thread or not any(
            each is optimizer for each in self._running
        ):
            return
        while self._running.pop() is not optimizer:
            pass
        self._left(optimizer)
        if not self._running:
            self._count += 1
            self._ended()

    def _watch_scaler(self, scaler: type, undo: ExitStack) -> None:
        original = scaler.__dict__["step"]

        @functools.wraps(original)
        def step(this: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            before = self._count
            result = original(this, optimizer, *args, **kwargs)
            if self._count == before and threading.get_ident() == self._thread:
                self._count += 1
                self._ended()
            return result

        scaler.step = step  # type: ignore[attr-defined]
        undo.callback(setattr, scaler, "step", original)


private.hide_from_compiler(StepHooks._before, StepHooks._after)


def _scaler_classes() -> list[type]:
    """The GradScaler classes that define ``step`` themselves."""
    return [kind for kind in (torch.amp.GradScaler,) if "step" in kind.__dict__]
