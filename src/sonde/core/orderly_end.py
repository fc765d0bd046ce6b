"""Ending a training from outside after a whole step, with all its callbacks called.

A training loop registers a function that makes it stop after the running step and then raise a
given exception. The debugger calls ``end_in_order`` when weights have just been changed. Where no
loop is registered, or in the middle of a step, the debugger raises the exception itself.
"""

from __future__ import annotations

from collections.abc import Callable


class OrderlyEnd(KeyboardInterrupt):
    """Ends the training; weights are those after the last whole step."""


Ender = Callable[[OrderlyEnd], None]

_enders: list[Ender] = []


def register_ender(ender: Ender) -> Callable[[], None]:
    """Add ``ender``; the returned function removes it, and may be called twice."""
    _enders.append(ender)

    def unregister() -> None:
        if ender in _enders:
            _enders.remove(ender)

    return unregister


def end_in_order(with_what: OrderlyEnd) -> bool:
    """Ask the running loops to stop; the outermost one raises ``with_what`` at its end.

    False if no loop is running.
    """
    for ender in _enders:
        ender(with_what)
    return bool(_enders)
