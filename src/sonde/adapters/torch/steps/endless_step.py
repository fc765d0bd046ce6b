"""Tells the user of a program whose steps never end what ends a step."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch

from sonde.adapters.torch import private
from sonde.core.patching import call_before

MANY_PASSES = 100
"""Backward passes after which it is reported that no step has ended."""
_ENDS = {
    "optimizer": "no optimizer of torch has stepped",
    "manual": "sonde.step() was never called",
}
_ADVICE = (
    "A step ends with an optimizer's step(); in a loop that updates its weights itself, call "
    "sonde.step() after each update and run with --step-by manual"
)


@dataclass(slots=True, eq=False)
class EndlessStep:
    """Counts backward passes until the first step has ended; reports once if none does.

    ``notify`` gets the text and the slug of the report. ``step_by`` is what ends steps. ``began``
    is called before each pass, also of later steps. Passes in threads other than the one that made
    this object do not count.
    """

    _notify: Callable[..., None]
    _step_by: str
    _began: Callable[[], None]
    _passes: int = 0
    _is_over: bool = False
    _thread: int = field(default_factory=threading.get_ident)

    def install(self, undo: ExitStack) -> None:
        """Watch backward passes until ``undo`` is closed."""
        for name in ("backward", "grad"):
            patch = call_before(torch.autograd, name, self._passed, undo)
            private.hide_from_compiler(patch.replacement)

    def step_ended(self) -> None:
        self._is_over = True

    def close(self) -> None:
        """Report a program that ends with all its passes in one step."""
        if not self._is_over and self._passes > 1:
            self._is_over = True
            self._notify(
                f"backward() was called {self._passes} times and {_ENDS[self._step_by]}: all ops "
                f"are those of one step. {_ADVICE}",
                slug="no-step-yet",
            )

    def _passed(self, *_: Any, **__: Any) -> None:
        if threading.get_ident() != self._thread or private.is_tracing():
            return  # torch.compile traces passes, too.
        self._began()
        if self._is_over:
            return
        self._passes += 1
        if self._passes >= MANY_PASSES:
            self._is_over = True
            self._notify(
                f"backward() was called {self._passes} times and {_ENDS[self._step_by]}: all ops "
                f"so far belong to one step, which keeps growing. {_ADVICE}",
                slug="no-step-yet",
            )


private.hide_from_compiler(EndlessStep._passed)
