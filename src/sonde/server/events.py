"""Changes of runs, announced to whoever listens; a slow listener slows nobody."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final, Literal

from sonde.wire.api import Event

Topic = Literal["status", "graph", "hits", "watchpoints", "loss", "notices"]

MOST_LISTENERS: Final = 256
_PAUSE_SECONDS: Final = 0.05
"""Changes closer together than this are told at once."""


class Listener:
    """One browser's view of what changed since it last heard: at most one event a run."""

    def __init__(self) -> None:
        self._waiting: dict[str, Event] = {}
        self._is_woken = asyncio.Event()

    def tell(self, event: Event) -> None:
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


class EventBoard:
    """Where changes are announced."""

    def __init__(self) -> None:
        self._listeners: set[Listener] = set()

    @property
    def is_full(self) -> bool:
        return len(self._listeners) >= MOST_LISTENERS

    def join(self) -> Listener:
        listener = Listener()
        self._listeners.add(listener)
        return listener

    def leave(self, listener: Listener) -> None:
        self._listeners.discard(listener)

    def announce(self, run: str, revision: int, *topics: Topic) -> None:
        event = Event(run, revision, topics)
        for listener in self._listeners:
            listener.tell(event)
