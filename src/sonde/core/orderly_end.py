"""How a training is ended in order, from outside, with all its callbacks called.

A training loop registers a function that is told to stop after the step that is being finished,
with the exception to be raised when everything is done. Whoever wants to end a training (a
debugger) asks for that when weights have just been changed, and raises the exception itself if
nobody can, or in the middle of a step, which is then left undone.
"""

from __future__ import annotations

from collections.abc import Callable


class OrderlyEnd(KeyboardInterrupt):
    """The training is to end here; weights are as the last whole step left them."""


Ender = Callable[[OrderlyEnd], None]

_enders: list[Ender] = []


def register_ender(ender: Ender) -> Callable[[], None]:
    """Add ``ender``; the returned function takes it away again (calling it twice is harmless)."""
    _enders.append(ender)

    def unregister() -> None:
        if ender in _enders:
            _enders.remove(ender)

    return unregister


def end_in_order(with_what: OrderlyEnd) -> bool:
    """Ask the loops that run now to stop; the outermost one raises ``with_what`` at its end. False
    if there is none."""
    for ender in _enders:
        ender(with_what)
    return bool(_enders)
