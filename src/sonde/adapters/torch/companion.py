"""Who goes along with a training, whether its ops are observed or not: a debugger."""

from __future__ import annotations

import logging
import os
import traceback
from collections.abc import Callable
from typing import Protocol

import torch

logger = logging.getLogger("sonde.capture")


class Companion(Protocol):
    """It may block. An exception is reported and ends the company; one that is no Exception
    reaches the training."""

    def optimizer_begins(self, optimizer: torch.optim.Optimizer, *, has_closure: bool) -> None:
        """``has_closure``: it will make the gradients by itself."""
        ...

    def optimizer_left(self, optimizer: torch.optim.Optimizer) -> None: ...
    def backward_begins(self) -> None: ...
    def failed(self, error: Exception) -> None:
        """A backward pass, an exchange of buffers or the program itself raised ``error``."""
        ...

    def step_ended(self) -> None:
        """A step is over, the next one has not begun to be observed."""
        ...


class Company:
    """Shields the training from its companion, if it has one."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._pid = os.getpid()
        self.companion: Companion | None = None

    def optimizer_begins(self, optimizer: torch.optim.Optimizer, *, has_closure: bool) -> None:
        if self.companion is not None:
            self._tell(
                lambda companion: companion.optimizer_begins(optimizer, has_closure=has_closure)
            )

    def optimizer_left(self, optimizer: torch.optim.Optimizer) -> None:
        if self.companion is not None:
            self._tell(lambda companion: companion.optimizer_left(optimizer))

    def backward_begins(self) -> None:
        if self.companion is not None:
            self._tell(lambda companion: companion.backward_begins())

    def failed(self, error: Exception) -> None:
        if self.companion is not None:
            self._tell(lambda companion: companion.failed(error))

    def step_ended(self) -> None:
        if self.companion is not None:
            self._tell(lambda companion: companion.step_ended())

    def _tell(self, tell: Callable[[Companion], None]) -> None:
        if self.companion is None or os.getpid() != self._pid:
            return
        try:
            tell(self.companion)
        except Exception as error:
            self.companion = None
            self._report(
                "sonde: the debugger failed and is switched off, training goes on: "
                f"{type(error).__name__}: {error} [debugger-failed]"
            )
            logger.debug("%s", "".join(traceback.format_exception(error)))
