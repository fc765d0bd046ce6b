"""What a running training offers to other parts of Sonde: an orderly end, and the first bad op.

A training loop registers a function that makes it stop after the running step and then raise a
given exception; the debugger calls ``end_in_order`` when weights have just been changed. A capture
session or a debugger registers a function that names the first op of the current step that
produced NaN or Inf; code that reports a bad loss adds the answer of ``first_bad_op``. A training
loop that resumes calls ``begin_counting_at``, so that a capture numbers the steps as the loop does.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from sonde.core.interruption import pass_on

T = TypeVar("T")


class OrderlyEnd(KeyboardInterrupt):
    """Ends the training; weights are those after the last whole step."""


Ender = Callable[[OrderlyEnd], None]
Origin = Callable[[], str | None]

_enders: list[Ender] = []
_origins: list[Origin] = []
_first_steps: list[Callable[[int], None]] = []
_step_names: list[Callable[[int], str]] = []


def register_ender(ender: Ender) -> Callable[[], None]:
    """Add ``ender``; the returned function removes it, and may be called twice."""
    return _register(_enders, ender)


def end_in_order(error: OrderlyEnd) -> bool:
    """Ask the running loops to stop; the outermost one raises ``error`` at its end.

    False if no loop is running: then the caller raises ``error`` itself.
    """
    for ender in _enders:
        ender(error)
    return bool(_enders)


def register_origin(origin: Origin) -> Callable[[], None]:
    """Add ``origin``; the returned function removes it, and may be called twice."""
    return _register(_origins, origin)


def first_bad_op() -> str | None:
    """The first answer of the registered origins, latest first; a failing origin is skipped."""
    for origin in reversed(_origins):
        try:
            answer = origin()
        except Exception as error:  # Naming the op must not hide the bad loss itself.
            pass_on(error)
            logging.getLogger("sonde.core").exception(
                "asking for the origin of a bad number failed"
            )
            continue
        if answer:
            return answer
    return None


def register_first_step(begin_at: Callable[[int], None]) -> Callable[[], None]:
    """Add a function that gets the number of the first step; the returned function removes it."""
    return _register(_first_steps, begin_at)


def begin_counting_at(step: int) -> None:
    """Number the steps of the running captures from ``step``: so many were done before."""
    for begin_at in list(_first_steps):
        begin_at(step)


def register_step_name(name: Callable[[int], str]) -> Callable[[], None]:
    """Add a function that returns what to add to the number of a step; see `step_text`."""
    return _register(_step_names, name)


def step_text(step: int) -> str:
    """A step for the user: ``step 7``, or ``step 7 (the Trainer's step 8)`` where a framework
    counts in another way."""
    return f"step {step}{next(filter(None, (name(step) for name in _step_names)), '')}"


def _register(registered: list[T], function: T) -> Callable[[], None]:
    registered.append(function)

    def unregister() -> None:
        if function in registered:
            registered.remove(function)

    return unregister
