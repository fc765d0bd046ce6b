"""Detects where steps end: the hooks that are installed during the whole capture.

A step ends when an optimizer's ``step()`` returns, whichever optimizer it is; a ``step()`` called
inside another (a wrapper's) does not count by itself; one that raises ends no step; a GradScaler
that skips its optimizer's step ends a step all the same. With ``step_by="manual"`` only
``sonde.step()`` ends steps. Optimizers that step in other threads do not count. Keras's optimizers
count like those of torch (``keras_updates``).
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from sonde.adapters.torch import private
from sonde.adapters.torch.eager.naming.scope_stack import running
from sonde.adapters.torch.keras_updates import follow_keras
from sonde.core.patching import wrap


@dataclass(slots=True, eq=False)
class StepHooks:
    """Calls back when optimizers begin and end a step.

    ``began`` and ``left`` are called with the optimizer before and after each ``step()``,
    ``ended`` after the outermost one and when a GradScaler skipped its optimizer's step;
    ``elsewhere`` with a thread's name when an optimizer steps in a thread other than the one that
    made this object; ``skipped`` with the optimizer whose step a GradScaler skipped, before
    ``ended``. They must not raise. ``closure``: what the ``step`` of the last optimizer that
    began was given to compute the loss again; ``scaler`` the GradScaler that calls it.
    """

    _began: Callable[[torch.optim.Optimizer], None]
    _left: Callable[[torch.optim.Optimizer], None]
    _ended: Callable[[], None]
    _elsewhere: Callable[[str], None]
    _skipped: Callable[[Any], None] = lambda optimizer: None
    closure: Callable[..., Any] | None = None
    scaler: Any = None
    _thread: int = field(default_factory=threading.get_ident)
    _running: list[torch.optim.Optimizer] = field(default_factory=list)
    _count: int = 0

    @property
    def depth(self) -> int:
        """How many optimizers are stepping, one inside the other."""
        return len(self._running)

    @property
    def outermost(self) -> torch.optim.Optimizer | None:
        """The optimizer whose step runs, not one that it calls."""
        return self._running[0] if self._running else None

    def install(self, undo: ExitStack) -> None:
        """Register the hooks; ``undo`` removes them."""
        undo.callback(register_optimizer_step_pre_hook(self._before).remove)
        undo.callback(register_optimizer_step_post_hook(self._after).remove)
        wrap(torch.amp.GradScaler, "step", self._count_skipped, undo)
        follow_keras(undo)

    def _before(
        self, optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        if threading.get_ident() != self._thread:
            self._elsewhere(threading.current_thread().name)
            return
        if self._running:
            # An optimizer that raised never reached the post hook.
            alive = set(map(id, running(sys._getframe(2))))
            self._running = [each for each in self._running if id(each) in alive]
        self._running.append(optimizer)
        self.closure = kwargs.get("closure", args[1] if len(args) > 1 else None)
        with private.without_torch_functions():
            self._began(optimizer)
        self.closure = None

    def _after(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        if threading.get_ident() != self._thread or not any(
            each is optimizer for each in self._running
        ):
            return
        while self._running.pop() is not optimizer:
            pass
        with private.without_torch_functions():
            self._left(optimizer)
            if not self._running:
                self._count += 1
                self._ended()

    def _count_skipped(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def step(this: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() != self._thread:
                return original(this, optimizer, *args, **kwargs)
            before = self._count
            self.scaler = this
            try:
                result = original(this, optimizer, *args, **kwargs)
                if self._count == before:
                    self._count += 1
                    with private.without_torch_functions():
                        self._skipped(optimizer)
                        self._ended()
            finally:
                self.scaler = None
            return result

        return step


private.hide_from_compiler(StepHooks._before, StepHooks._after)
