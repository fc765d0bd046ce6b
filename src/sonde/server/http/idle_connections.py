"""Limits on connections that have not sent a complete request: how many, and for how long.

A client that opens connections and sends nothing, or sends one byte at a time, must not use up the
connections and file descriptors that other clients need.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_IDLE: Final = 256
IDLE_SECONDS: Final = 20.0


class IdleConnections:
    """Connections that owe the server a request. Used in the event loop's thread only.

    Each connection is closed after ``seconds``; beyond ``most`` connections the oldest is closed.
    """

    def __init__(self, most: int = MOST_IDLE, seconds: float = IDLE_SECONDS) -> None:
        self._most = most
        self._seconds = seconds
        self._waiting: dict[Hashable, tuple[Callable[[], object], asyncio.TimerHandle]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def opened(self, connection: Hashable, close: Callable[[], object]) -> None:
        """Start the clock of ``connection``; ``close`` is called when its time is up."""
        self.active(connection)
        timer = asyncio.get_running_loop().call_later(self._seconds, self._close, connection)
        self._waiting[connection] = close, timer
        if len(self._waiting) > self._most:
            self._close(next(iter(self._waiting)))

    def active(self, connection: Hashable) -> None:
        """Stop the clock: the request arrived, or the connection is closed."""
        known = self._waiting.pop(connection, None)
        if known is not None:
            known[1].cancel()

    def _close(self, connection: Hashable) -> None:
        close, _ = self._waiting[connection]
        self.active(connection)
        close()


class IdleLimitedHttp(H11Protocol):
    """uvicorn's HTTP connection with a time limit on each request, which uvicorn has not."""

    def __init__(self, idle: IdleConnections, **more: Any) -> None:
        super().__init__(**more)
        self._idle = idle

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._idle.opened(self, transport.abort)

    def handle_events(self) -> None:
        super().handle_events()
        if self.cycle is not None and not self.cycle.response_complete:
            self._idle.active(self)

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        self._idle.active(self)
        super().handle_websocket_upgrade(event)

    def on_response_complete(self) -> None:
        if not self.transport.is_closing():
            self._idle.opened(self, self.transport.abort)
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._idle.active(self)
        super().connection_lost(exc)
