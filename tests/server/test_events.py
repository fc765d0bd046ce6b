"""Announcing changes."""

import asyncio

from sonde.server.events import EventBoard
from sonde.wire.api import Event


def test_a_listener_that_is_slow_gets_changes_together() -> None:
    async def scenario() -> list[Event]:
        board = EventBoard()
        listener = board.join()
        for revision in range(1, 1001):
            board.announce("a", revision, "status" if revision % 2 else "loss")
        board.announce("b", 7, "hits")
        heard = []
        async for event in listener.events():
            heard.append(event)
            if len(heard) == 2:
                break
        board.leave(listener)
        board.announce("a", 2000, "status")
        return heard

    assert asyncio.run(scenario()) == [
        Event("a", 1000, ("status", "loss")),
        Event("b", 7, ("hits",)),
    ]
