"""The evidence under construction, shared by the collectors, and the shield around them."""

from __future__ import annotations

import functools
import logging
import os
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any, TypeVar

import torch

from sonde.adapters.torch import private
from sonde.adapters.torch.calling_line import own_frame
from sonde.adapters.torch.eager.naming.frame_variables import variables_of
from sonde.core.graph import Source
from sonde.core.interruption import pass_on
from sonde.core.text.problem_line import ProblemLine
from sonde.diagnosis.evidence import EvidenceEvent, Number, TrainingEvidence
from sonde.logs import say

F = TypeVar("F", bound=Callable[..., Any])
MOST_EVENTS = 2000
logger = logging.getLogger("sonde.capture")


class EvidenceRecorder:
    """The evidence so far, the number of the running step, its last loss, and whether observation
    goes on.

    Used from the thread that made it; calls in other threads and in forked children are ignored.
    """

    def __init__(self) -> None:
        self.evidence = TrainingEvidence()
        self.step = 0
        self.is_on = True
        self.is_probing = False
        self.uses_compiler = False
        self.loss = 0.0
        self._events: dict[tuple[str, Source | None, str], EvidenceEvent] = {}
        self._thread = threading.get_ident()
        self._process = os.getpid()

    def event(
        self, name: str, source: Source | None = None, subject: str = "", **numbers: Number
    ) -> EvidenceEvent | None:
        """Note that something happened; the same name, line and subject is one event."""
        key = (name, source, subject)
        known = self._events.get(key)
        if known is not None:
            known.count += 1
            known.last_step = self.step
            return known
        if len(self._events) >= MOST_EVENTS:
            return None
        made = EvidenceEvent(name, self.step, source, subject, numbers, last_step=self.step)
        self._events[key] = made
        self.evidence.events.append(made)
        return made

    def measure(
        self, name: str, source: Source | None = None, subject: str = "", **numbers: Number
    ) -> None:
        """Note numbers that replace those measured before."""
        event = self.event(name, source, subject, **numbers)
        if event is not None:
            event.numbers.update(numbers)

    @property
    def observes(self) -> bool:
        return (
            self.is_on
            and not self.is_probing
            and threading.get_ident() == self._thread
            and os.getpid() == self._process
        )

    def failed(self, error: Exception) -> None:
        """Stop observing: a failure of Sonde must not end the training."""
        pass_on(error)
        self.is_on = False
        text = (
            "the collection of evidence failed and is switched off, training goes on: "
            f"{type(error).__name__}: {error}"
        )
        say(ProblemLine(text, slug="diagnosis-failed"))
        logger.debug("%s", "".join(traceback.format_exception(error)))


def shielded(function: F) -> F:
    """Make a method of a collector (with ``recorder``) do nothing when observation is off, and hand
    its exceptions to the recorder. The ops that it calls are recorded neither by autograd nor by a
    trace, and no mode of the program sees them."""

    @functools.wraps(function)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        recorder: EvidenceRecorder = self.recorder
        if not recorder.observes or torch.compiler.is_compiling() or private.is_recording_trace():
            return None
        try:
            if not private.is_in_mode():
                with torch.no_grad():
                    return function(self, *args, **kwargs)
            with private.hidden_from_modes(), torch.no_grad():
                return function(self, *args, **kwargs)
        except Exception as error:
            recorder.failed(error)
            return None

    return call  # type: ignore[return-value]


def variables_holding(value: object) -> list[str]:
    """The names of the variables of the user's innermost frame that hold ``value``."""
    return [name for name, held in variables_in_own_frame() if held is value]


def variables_in_own_frame() -> list[tuple[str, Any]]:
    """The variables of the user's innermost frame."""
    frame = own_frame(sys._getframe(1))
    return [] if frame is None else variables_of(frame)
