"""The reports that wait to be sent to the server."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from sonde.core.interruption import pass_on
from sonde.ranks.report import RankReport

MOST_WAITING: Final = 20_000
_MOST_AT_ONCE: Final = 500


class Outbox:
    """Reports in their order; the oldest are dropped if too many wait. For use from any thread."""

    def __init__(self) -> None:
        self.dropped = 0
        # A lock around its methods, which are atomic, could be left locked by an interruption.
        self._waiting: deque[RankReport] = deque(maxlen=MOST_WAITING)
        self._sending = threading.RLock()

    def add(self, report: RankReport) -> None:
        self.dropped += len(self._waiting) == MOST_WAITING
        self._waiting.append(report)

    def empty(self, send: Callable[[tuple[RankReport, ...]], object], *, waits: bool) -> None:
        """Send what waits, in its order. Not ``waits``: nothing if another thread sends."""
        try:
            if not self._sending.acquire(blocking=waits):
                return
            while reports := self._next():
                send(reports)
        finally:
            # A signal handler of the program may raise when the lock is taken, or just before.
            try:
                self._sending.release()
            except RuntimeError as error:  # This thread does not have it.
                pass_on(error)

    def _next(self) -> tuple[RankReport, ...]:
        count = min(len(self._waiting), _MOST_AT_ONCE)
        return tuple(self._waiting.popleft() for _ in range(count))
