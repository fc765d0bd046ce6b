"""The first op of the current step that produced NaN or Inf, for messages about a bad loss.

A capture session or a debugger registers a function that names that op, or returns None. Code that
reports a bad loss adds the answer of ``first_bad_op()`` to its message; without a registered
function the answer is None.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

Origin = Callable[[], str | None]

_origins: list[Origin] = []


def register_origin(origin: Origin) -> Callable[[], None]:
    """Add ``origin``; the returned function removes it, and may be called twice."""
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
        except Exception:  # Naming the op must not hide the bad loss itself.
            logging.getLogger("sonde.core").exception(
                "asking for the origin of a bad number failed"
            )
            continue
        if answer:
            return answer
    return None
