"""Who can say where a bad number came from.

Whatever observes a run (a capture session, a debugger) registers a function that names the first
op that produced NaN or Inf in the current step, or returns None. Whoever reports a bad loss asks
``first_bad_op()`` and adds the answer to its message. With nobody observing the answer is None.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

Origin = Callable[[], str | None]

_origins: list[Origin] = []


def register_origin(origin: Origin) -> Callable[[], None]:
    """Add ``origin``; the returned function takes it away again (calling it twice is harmless)."""
    _origins.append(origin)

    def unregister() -> None:
        if origin in _origins:
            _origins.remove(origin)

    return unregister


def first_bad_op() -> str | None:
    """The first answer of the registered origins, latest first; a failing origin is skipped."""
    for origin in reversed(_origins):
        try:
            answer = origin()
        except Exception:  # a shield: naming the op must not hide the bad loss itself
            logging.getLogger("sonde.core").exception(
                "asking for the origin of a bad number failed"
            )
            continue
        if answer:
            return answer
    return None
