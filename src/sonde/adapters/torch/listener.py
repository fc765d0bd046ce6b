"""The training's listener: a debugger that follows the steps, whether ops are observed or not."""

from __future__ import annotations

import logging
import os
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from sonde.core.interruption import pass_on
from sonde.core.text.problem_line import ProblemLine

if TYPE_CHECKING:
    from sonde.adapters.torch.debugging.training import TorchDebugging

logger = logging.getLogger("sonde.capture")


@dataclass(slots=True, eq=False)
class ShieldedListener:
    """Calls the debugger, if there is one, and shields the training from its failures.

    An Exception that it raises is reported, and it is not called any more. A BaseException that is
    not an Exception reaches the training.
    """

    _report: Callable[[str], None]
    _pid: int = field(default_factory=os.getpid)
    _listener: TorchDebugging | None = None

    def set(self, listener: TorchDebugging) -> None:
        self._listener = listener

    def optimizer_begins(self, optimizer: torch.optim.Optimizer, *, has_closure: bool) -> None:
        self._call(lambda listener: listener.optimizer_begins(optimizer, has_closure=has_closure))

    def optimizer_left(self, optimizer: torch.optim.Optimizer) -> None:
        self._call(lambda listener: listener.optimizer_left(optimizer))

    def backward_begins(self) -> None:
        self._call(lambda listener: listener.backward_begins())

    def failed(self, error: Exception) -> None:
        self._call(lambda listener: listener.failed(error))

    def not_observed(self, slug: str, text: str) -> None:
        """Say on the debugger's page what is not observed of the training."""
        self._call(lambda listener: listener.debugger.session.notice(slug, text, is_gap=True))

    def step_ended(self) -> None:
        self._call(lambda listener: listener.step_ended())

    def begin_at(self, step: int) -> None:
        self._call(lambda listener: listener.debugger.begin_at(step))

    def notice(self, slug: str, text: str) -> None:
        """Show ``text`` on the debugger's page."""
        self._call(lambda listener: listener.debugger.session.notice(slug, text))

    def _call(self, call: Callable[[TorchDebugging], None]) -> None:
        # A forked child has a copy of the listener, whose connection is the parent's.
        if self._listener is None or os.getpid() != self._pid:
            return
        try:
            call(self._listener)
        except Exception as error:
            pass_on(error)
            self._listener = None
            text = (
                "sonde: the debugger failed and is switched off, training goes on: "
                f"{type(error).__name__}: {error}"
            )
            self._report(ProblemLine(text, slug="debugger-failed"))
            logger.debug("%s", "".join(traceback.format_exception(error)))
