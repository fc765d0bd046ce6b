"""A route of the API as data: what it takes, what it answers, who does it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal

from sonde.server.events import EventBoard
from sonde.server.source import NpyFile, Runs, RunSource
from sonde.wire.queries import Nothing
from sonde.wire.shapes import Plain


@dataclass(frozen=True, slots=True)
class Context:
    """What the handlers work on. ``rank_port``: where trainings connect, None: nowhere;
    ``has_token``: they need the token."""

    runs: Runs
    board: EventBoard
    rank_port: int | None = None
    has_token: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """One request, parsed: the run of the path, its number if it has one, query and body."""

    context: Context
    query: Any
    body: Any
    _run: RunSource | None = None
    number: int = 0

    @property
    def run(self) -> RunSource:
        assert self._run is not None
        return self._run


Handler = Callable[[Call], Awaitable[Plain | NpyFile | None]]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """``path`` is below ``/api/v1``. ``answer`` None: nothing is answered (204)."""

    method: Literal["GET", "POST", "PUT", "DELETE"]
    path: str
    summary: str
    handler: Handler
    answer: type[Plain] | type[NpyFile] | None
    query: type[Plain] = Nothing
    body: type[Plain] | None = None
