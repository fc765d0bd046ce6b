"""A route of the API as data: its parameters, its answer, and its handler."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal

from sonde.profile.document import Profile
from sonde.server.health.summaries import LogDirectories
from sonde.server.http.events import EventBroker
from sonde.server.run import NpyFile, Run, Runs
from sonde.wire.shapes import Plain


@dataclass(frozen=True, slots=True)
class Context:
    """Shared by the handlers. ``rank_port``: the port to which trainings connect, None if they
    cannot; ``fingerprint``: of the server's certificate, empty without TLS; ``profile``: the one
    that graphs are coloured by, if one was given; ``logs``: the event files that are shown."""

    runs: Runs
    broker: EventBroker
    rank_port: int | None = None
    fingerprint: str = ""
    profile: Profile | None = None
    logs: LogDirectories = field(default_factory=LogDirectories)


@dataclass(frozen=True, slots=True)
class Call:
    """What the path of a request names: the run and the number in it."""

    context: Context
    _run: Run | None = None
    number: int = 0

    @property
    def run(self) -> Run:
        assert self._run is not None
        return self._run


Handler = Callable[..., Awaitable[Plain | NpyFile | None]]
Method = Literal["GET", "POST", "PUT", "DELETE"]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """``path`` is relative to ``/api/v1``. ``answer`` None: the answer is empty (204)."""

    method: Method
    path: str
    summary: str
    handler: Handler
    answer: type[Plain] | type[NpyFile] | None
    query: type[Plain] | None
    body: type[Plain] | None


class Endpoints(list[Endpoint]):
    """The endpoints of one module; ``add`` decorates their handlers.

    The annotations of a handler say what it is called with, besides its ``call``: ``query``, the
    parameters after the path, and ``body``; and what it answers, unless ``answer`` says so.
    """

    def add(
        self, method: Method, path: str, summary: str, answer: type[Plain] | None = None
    ) -> Callable[[Handler], Handler]:
        def decorate(handler: Handler) -> Handler:
            types = inspect.get_annotations(handler, eval_str=True)
            found = answer or types["return"]
            query, body = types.get("query"), types.get("body")
            self.append(Endpoint(method, path, summary, handler, found, query, body))
            return handler

        return decorate
