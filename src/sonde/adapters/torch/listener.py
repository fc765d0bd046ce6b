"""The training's listener: a debugger that follows the steps, whether ops are observed or not."""

from __future__ import annotations

import logging
import os
import traceback
from collections.abc import Callable
from typing import Protocol

import torch

logger = logging.getLogger("sonde.capture")


class TrainingListener(Protocol):
    """Follows a training. Its methods may block.

    An Exception that one of them raises is reported, and the listener is not called any more. A
    BaseException that is not an Exception reaches the training.
    """

    def optimizer_begins(self, optimizer: torch.optim.Optimizer, *, has_closure: bool) -> None:
        """``has_closure``: the optimizer computes the gradients itself, by calling a closure."""
        ...

    def optimizer_left(self, optimizer: torch.optim.Optimizer) -> None: ...
    def backward_begins(self) -> None: ...
    def failed(self, error: Exception) -> None:
        """A backward pass, an exchange of buffers or the program itself raised ``error``."""
        ...

    def step_ended(self) -> None:
        """A step has ended; observation of the next one has not begun."""
        ...


class ShieldedListener:
    """Calls the listener, if there is one, and shields the training from its failures."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._pid = os.getpid()
        self._listener: TrainingListener | None = None

    def set(self, listener: TrainingListener) -> None:
        self._listener = listener

    def optimizer_begins(self, optimizer: torch.optim.Optimizer, *, has_closure: bool) -> None:
        self._call(lambda listener: listener.optimizer_begins(optimizer, has_closure=has_closure))

    def optimizer_left(self, optimizer: torch.optim.Optimizer) -> None:
        self._call(lambda listener: listener.optimizer_left(optimizer))

    def backward_begins(self) -> None:
        self._call(lambda listener: listener.backward_begins())

    def failed(self, error: Exception) -> None:
        self._call(lambda listener: listener.failed(error))

    def step_ended(self) -> None:
        self._call(lambda listener: listener.step_ended())

    def _call(self, call: Callable[[TrainingListener], None]) -> None:
        # A forked child has a copy of the listener, whose connection is the parent's.
        if self._listener is None or os.getpid() != self._pid:
            return
        try:
            call(self._listener)
        except Exception as error:
            self._listener = None
            self._report(
                "sonde: the debugger failed and is switched off, training goes on: "
                f"{type(error).__name__}: {error} [debugger-failed]"
            )
            logger.debug("%s", "".join(traceback.format_exception(error)))
