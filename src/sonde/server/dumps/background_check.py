"""The check of a dump in a thread, while the server answers the page."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Final

from sonde.server.dumps.index import IndexedDump
from sonde.server.dumps.recheck import CheckProgress, recheck
from sonde.wire.api import RecheckView
from sonde.wire.shapes import Hit, WatchpointSpec

_log = logging.getLogger("sonde.server")
_ANNOUNCE_SECONDS: Final = 0.3

Take = Callable[["BackgroundCheck", Sequence[Hit]], None]


class BackgroundCheck:
    """One check of a dump, in a thread; ``take`` is called in the event loop's thread."""

    def __init__(self, dump: IndexedDump, specs: Sequence[WatchpointSpec], take: Take) -> None:
        self._dump = dump
        self._specs = tuple(specs)
        self._take = take
        self._loop = asyncio.get_running_loop()
        self._stopped = threading.Event()
        self._done, self._total = 0, 0
        self._waiting: list[Hit] = []
        self._announced = 0.0
        self.is_running = True
        self.failure = ""

    def view(self, hits: int) -> RecheckView:
        return RecheckView(self.is_running, self._done, self._total, hits)

    def stop(self) -> None:
        self._stopped.set()

    def run(self) -> None:
        try:
            recheck(self._dump, self._specs, self._report)
        except Exception as error:  # The page shows the failure.
            _log.exception("the check of %s failed", self._dump.dump.path)
            self.failure = f"the check failed: {type(error).__name__}: {error} [server-failed]"
        finally:
            self.is_running = False
            self._total = self._done
            self._announce()

    def _report(self, progress: CheckProgress) -> bool:
        self._done, self._total = progress.done, progress.total
        self._waiting.extend(progress.hits)
        now = self._loop.time()
        if now - self._announced > _ANNOUNCE_SECONDS:
            self._announced = now
            self._announce()
        return not self._stopped.is_set()

    def _announce(self) -> None:
        waiting, self._waiting = self._waiting, []
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._take, self, waiting)
