"""Announces changes of runs to the connected browsers; a slow one does not delay the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Final, Literal

from sonde.wire.api import Event

Topic = Literal["status", "graph", "hits", "watchpoints", "loss", "notices"]

MOST_SUBSCRIBERS: Final = 256
_PAUSE_SECONDS: Final = 0.05
"""Changes that are closer together than this are announced together."""


class EventSubscriber:
    """The changes since one browser's last event, merged to at most one event per run."""

    def __init__(self) -> None:
        self._waiting: dict[str, Event] = {}
        self._is_woken = asyncio.Event()

    def notify(self, event: Event) -> None:
        earlier = self._waiting.get(event.run)
        topics = event.topics if earlier is None else (*earlier.topics, *event.topics)
        self._waiting[event.run] = Event(event.run, event.revision, tuple(dict.fromkeys(topics)))
        self._is_woken.set()

    async def events(self) -> AsyncIterator[Event]:
        while True:
            await self._is_woken.wait()
            self._is_woken.clear()
            waiting, self._waiting = self._waiting, {}
            for event in waiting.values():
                yield event
            await asyncio.sleep(_PAUSE_SECONDS)


class EventBroker:
    """Passes announcements on to all subscribers. Used in the event loop's thread only."""

    def __init__(self) -> None:
        self._subscribers: set[EventSubscriber] = set()

    @property
    def is_full(self) -> bool:
        return len(self._subscribers) >= MOST_SUBSCRIBERS

    def subscribe(self) -> EventSubscriber:
        subscriber = EventSubscriber()
        self._subscribers.add(subscriber)
        return subscriber

    def unsubscribe(self, subscriber: EventSubscriber) -> None:
        self._subscribers.discard(subscriber)

    def announce(self, run: str, revision: int, *topics: Topic) -> None:
        """Announce that these topics of a run have changed."""
        event = Event(run, revision, topics)
        for subscriber in self._subscribers:
            subscriber.notify(event)


class Changes:
    """Counts and announces the changes of one run, and lets callers wait for them. ``revision``
    grows with every change. Used in the event loop's thread only."""

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
