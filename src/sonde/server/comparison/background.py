"""Compares two dumps in a background thread."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import Counter
from collections.abc import Callable
from typing import Final

from sonde.compare.options import CompareOptions
from sonde.compare.runs.compare import compare
from sonde.compare.runs.result import RunComparison
from sonde.core.errors import SondeError
from sonde.dump.reader import Dump
from sonde.server.comparison.views import ComparisonPages, first_view
from sonde.server.headlines import divergence_headline
from sonde.wire import comparison as wire
from sonde.wire.api import RunHeadline
from sonde.wire.convert import copy_fields

_log = logging.getLogger("sonde.server")
_ANNOUNCE_SECONDS: Final = 0.3


class _StoppedError(Exception):
    """The server is shutting down."""


class BackgroundComparison:
    """The comparison of runs ``a`` and ``b``; b is the reference, as in ``sonde compare``.

    ``run`` is executed in a thread of its own; all other methods are used in the event loop's
    thread, where ``changed`` is called when there is progress or a result.
    """

    def __init__(
        self, a: tuple[str, Dump], b: tuple[str, Dump], changed: Callable[[], None]
    ) -> None:
        self._ids = (a[0], b[0])
        self._dumps = (a[1], b[1])
        self._changed = changed
        self._loop = asyncio.get_running_loop()
        self._stopped = threading.Event()
        self._announced_at = 0.0
        self._progress = ("reading", 0, 0)
        self._problem = ""
        self._is_running = True
        self.pages: ComparisonPages | None = None
        self.headline: RunHeadline | None = None

    def side(self, run: str) -> wire.Side:
        return "a" if run == self._ids[0] else "b"

    def stop(self) -> None:
        self._stopped.set()

    def run(self) -> None:
        try:
            found = compare(*self._dumps, CompareOptions(progress=self._note))
            self.headline = divergence_headline(found)
            self.pages = ComparisonPages(found)
        except _StoppedError:
            return
        except SondeError as error:
            self._problem = str(error)
        except Exception as error:  # The failure of the thread is shown on the page.
            _log.exception("the comparison of %s and %s failed", *self._dumps)
            self._problem = f"{type(error).__name__}: {error} [server-failed]"
        finally:
            self._is_running = False
            self._announce()

    def _note(self, what: str, done: int, total: int) -> None:
        if self._stopped.is_set():
            raise _StoppedError
        self._progress = (what, done, total)
        now = self._loop.time()
        if now - self._announced_at > _ANNOUNCE_SECONDS:
            self._announced_at = now
            self._announce()

    def _announce(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._changed)

    def view(self, run: str) -> wire.ComparisonView:
        """The progress or the result, from the side of run ``run``."""
        what, done, total = self._progress
        so_far = (*self._ids, self.side(run), self._is_running, what, done, total, self._problem)
        if self.pages is None:
            return wire.ComparisonView(*so_far)
        found: RunComparison = self.pages.found
        sides = Counter(each.side for each in found.unpaired)
        return wire.ComparisonView(
            *so_far,
            verdict=found.verdict,
            by=found.by,
            first=first_view(found),
            reasons=found.reasons,
            notes=found.notes,
            losses=tuple(copy_fields(loss, wire.ComparedLoss) for loss in found.losses),
            counts=dict(Counter(pair.status for pair in found.pairs)),
            pairs=len(found.pairs),
            unpaired_a=sides["a"],
            unpaired_b=sides["b"],
        )
