"""Announcing changes."""

import asyncio

from sonde.server.http.events import EventBroker
from sonde.wire.api import Event


def test_a_slow_subscriber_gets_merged_changes() -> None:
    async def scenario() -> list[Event]:
        broker = EventBroker()
        subscriber = broker.subscribe()
        for revision in range(1, 1001):
            broker.announce("a", revision, "status" if revision % 2 else "loss")
        broker.announce("b", 7, "hits")
        heard = []
        async for event in subscriber.events():
            heard.append(event)
            if len(heard) == 2:
                break
        broker.unsubscribe(subscriber)
        broker.announce("a", 2000, "status")
        return heard

    assert asyncio.run(scenario()) == [
        Event("a", 1000, ("status", "loss")),
        Event("b", 7, ("hits",)),
    ]
