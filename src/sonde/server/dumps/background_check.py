"""The check of a dump while the page goes on."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Final

from sonde.server.dumps.index import IndexedDump
from sonde.server.dumps.recheck import recheck
from sonde.wire.api import RecheckView
from sonde.wire.shapes import Hit, WatchpointSpec

_log = logging.getLogger("sonde.server")
_ANNOUNCE_SECONDS: Final = 0.3

Take = Callable[["BackgroundCheck", Sequence[Hit]], None]


class BackgroundCheck:
    """One run over a dump, in a thread; ``take`` is called in the event loop's."""

    def __init__(self, shelf: IndexedDump, specs: Sequence[WatchpointSpec], take: Take) -> None:
        self._shelf = shelf
        self._specs = tuple(specs)
        self._take = take
        self._loop = asyncio.get_running_loop()
        self._stopped = threading.Event()
        self._done, self._total = 0, 0
        self._waiting: list[Hit] = []
        self._told = 0.0
        self.is_running = True
        self.failure = ""

    def view(self, hits: int) -> RecheckView:
        return RecheckView(self.is_running, self._done, self._total, hits)

    def stop(self) -> None:
        self._stopped.set()

    def run(self) -> None:
        try:
            recheck(self._shelf, self._specs, self._progress)
        except Exception as error:  # The thread's failure is carried to the page.
            _log.exception("the check of %s failed", self._shelf.dump.path)
            self.failure = f"the check failed: {type(error).__name__}: {error} [server-failed]"
        finally:
            self.is_running = False
            self._total = self._done
            self._tell()

    def _progress(self, done: int, total: int, hits: Sequence[Hit]) -> bool:
        self._done, self._total = done, total
        self._waiting.extend(hits)
        now = self._loop.time()
        if now - self._told > _ANNOUNCE_SECONDS:
            self._told = now
            self._tell()
        return not self._stopped.is_set()

    def _tell(self) -> None:
        waiting, self._waiting = self._waiting, []
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._take, self, waiting)
