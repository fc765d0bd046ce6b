"""A route of the API as data: its parameters, its answer, and its handler."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal

from sonde.server.http.events import EventBroker
from sonde.server.run import NpyFile, Run, Runs
from sonde.wire.queries import Nothing
from sonde.wire.shapes import Plain


@dataclass(frozen=True, slots=True)
class Context:
    """Shared by the handlers. ``rank_port``: the port to which trainings connect, None if they
    cannot; ``has_token``: whether they need the token."""

    runs: Runs
    broker: EventBroker
    rank_port: int | None = None
    has_token: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """One parsed request: the run and the number in its path, its query and its body."""

    context: Context
    query: Any
    body: Any
    _run: Run | None = None
    number: int = 0

    @property
    def run(self) -> Run:
        assert self._run is not None
        return self._run


Handler = Callable[[Call], Awaitable[Plain | NpyFile | None]]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """``path`` is relative to ``/api/v1``. ``answer`` None: the answer is empty (204)."""

    method: Literal["GET", "POST", "PUT", "DELETE"]
    path: str
    summary: str
    handler: Handler
    answer: type[Plain] | type[NpyFile] | None
    query: type[Plain] = Nothing
    body: type[Plain] | None = None
