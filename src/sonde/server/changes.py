"""Changes of one run: counted, announced, waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from sonde.server.events import EventBoard, Topic


class Changes:
    """``revision`` grows with every change. Used in the event loop's thread only."""

    def __init__(self, run: str, board: EventBoard) -> None:
        self._run = run
        self._board = board
        self._happened = asyncio.Event()
        self.revision = 0

    def touch(self, *topics: Topic) -> None:
        """Something changed."""
        self.revision += 1
        self._board.announce(self._run, self.revision, *topics)
        self._happened.set()
        self._happened = asyncio.Event()

    async def until(self, is_so: Callable[[], bool], seconds: float) -> None:
        """Wait for a change after which ``is_so``, or until time is up."""
        deadline = asyncio.get_running_loop().time() + seconds
        while not is_so():
            rest = deadline - asyncio.get_running_loop().time()
            if not rest > 0:
                return
            try:
                await asyncio.wait_for(self._happened.wait(), rest)
            except asyncio.TimeoutError:
                return
