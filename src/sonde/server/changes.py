"""Counts and announces the changes of one run, and lets callers wait for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from sonde.server.http.events import EventBroker, Topic


class Changes:
    """``revision`` grows with every change. Used in the event loop's thread only."""

    def __init__(self, run: str, broker: EventBroker) -> None:
        self._run = run
        self._broker = broker
        self._happened = asyncio.Event()
        self.revision = 0

    def touch(self, *topics: Topic) -> None:
        """Note and announce a change of ``topics``."""
        self.revision += 1
        self._broker.announce(self._run, self.revision, *topics)
        self._happened.set()
        self._happened = asyncio.Event()

    async def until(self, is_so: Callable[[], bool], seconds: float) -> None:
        """Wait for a change after which ``is_so`` is true, or for ``seconds``."""
        deadline = asyncio.get_running_loop().time() + seconds
        while not is_so():
            rest = deadline - asyncio.get_running_loop().time()
            if not rest > 0:
                return
            try:
                await asyncio.wait_for(self._happened.wait(), rest)
            except asyncio.TimeoutError:
                return
