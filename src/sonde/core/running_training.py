"""What a running training offers to other parts of Sonde: an orderly end, and the first bad op.

A training loop registers a function that makes it stop after the running step and then raise a
given exception; the debugger calls ``end_in_order`` when weights have just been changed. A capture
session or a debugger registers a function that names the first op of the current step that
produced NaN or Inf; code that reports a bad loss adds the answer of ``first_bad_op``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class OrderlyEnd(KeyboardInterrupt):
    """Ends the training; weights are those after the last whole step."""


Ender = Callable[[OrderlyEnd], None]
Origin = Callable[[], str | None]

_enders: list[Ender] = []
_origins: list[Origin] = []


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
        except Exception:  # Naming the op must not hide the bad loss itself.
            logging.getLogger("sonde.core").exception(
                "asking for the origin of a bad number failed"
            )
            continue
        if answer:
            return answer
    return None


def _register(registered: list[T], function: T) -> Callable[[], None]:
    registered.append(function)

    def unregister() -> None:
        if function in registered:
            registered.remove(function)

    return unregister
