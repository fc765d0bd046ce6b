"""Connections from which nothing whole has come yet: few, and not for long.

Whoever opens connections and says nothing, or says it letter by letter, must not use up what the
server has for others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_STRANGERS: Final = 256
STRANGER_SECONDS: Final = 20.0


class Strangers:
    """Of more than ``most`` the one that waits longest is sent away, and each after ``seconds``.
    Used in the event loop's thread only."""

    def __init__(self, most: int = MOST_STRANGERS, seconds: float = STRANGER_SECONDS) -> None:
        self._most = most
        self._seconds = seconds
        self._waiting: dict[Hashable, tuple[Callable[[], object], asyncio.TimerHandle]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def came(self, who: Hashable, send_away: Callable[[], object]) -> None:
        """From now on something is expected of ``who``."""
        self.spoke(who)
        timer = asyncio.get_running_loop().call_later(self._seconds, self._send_away, who)
        self._waiting[who] = send_away, timer
        if len(self._waiting) > self._most:
            self._send_away(next(iter(self._waiting)))

    def spoke(self, who: Hashable) -> None:
        """It came, or nothing will come any more."""
        known = self._waiting.pop(who, None)
        if known is not None:
            known[1].cancel()

    def _send_away(self, who: Hashable) -> None:
        send_away, _ = self._waiting[who]
        self.spoke(who)
        send_away()


class GuardedHttp(H11Protocol):
    """uvicorn's connection, which by itself waits for a request for ever."""

    def __init__(self, strangers: Strangers, **more: Any) -> None:
        super().__init__(**more)
        self._strangers = strangers

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._strangers.came(self, transport.abort)

    def handle_events(self) -> None:
        super().handle_events()
        if self.cycle is not None and not self.cycle.response_complete:
            self._strangers.spoke(self)

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        self._strangers.spoke(self)
        super().handle_websocket_upgrade(event)

    def on_response_complete(self) -> None:
        if not self.transport.is_closing():
            self._strangers.came(self, self.transport.abort)
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._strangers.spoke(self)
        super().connection_lost(exc)
