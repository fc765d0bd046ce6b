"""Runs the server: the port of the page and the port of the ranks."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import resource
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import uvicorn

from sonde.core.errors import UsageError
from sonde.debugger.launch.server_process import DEFAULT_PAGE_PORT, END_WHEN_UNUSED
from sonde.debugger.launch.server_registry import ServerState, announce_server
from sonde.debugger.settings import DEFAULT_HOST, DEFAULT_PORT
from sonde.profile.document import Profile
from sonde.server.app import build_app
from sonde.server.health.summaries import LogDirectories
from sonde.server.http.auth import TokenCheck, checked_token, new_token
from sonde.server.http.endpoint import Context
from sonde.server.http.events import EventBroker
from sonde.server.http.idle_connections import IdleConnections, IdleLimitedHttp
from sonde.server.http.security import Guard
from sonde.server.live.findings_output import FindingsOutput
from sonde.server.live.hub import BACKLOG, Hub
from sonde.server.run import Run, Runs
from sonde.wire.tls import ServerCertificate

_LOOK_SECONDS: Final = 0.2
_MOST_FILES: Final = 16_384
_OTHER_HOST: Final = "give an address of this machine with --host"


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """``port`` and ``rank_port`` 0: any free port; ``rank_port`` None: ranks cannot connect.

    ``token`` empty: a generated one. A token that can be guessed is a UsageError. ``certificate``
    None: without TLS. ``output``: what takes the findings about the ranks of a job. ``profile``:
    what `sonde profile` measured, for the time of ops. ``in_frame``: pages of this machine, such as
    a notebook, may show the page in a frame. ``logs``: directories with event files.
    """

    host: str = DEFAULT_HOST
    port: int = DEFAULT_PAGE_PORT
    rank_port: int | None = DEFAULT_PORT
    token: str = ""
    paused: bool = True
    certificate: ServerCertificate | None = None
    output: FindingsOutput | None = None
    profile: Profile | None = None
    in_frame: bool = False
    logs: tuple[Path, ...] = ()


def serve(
    options: ServerOptions,
    ready: Callable[[ServerState], None],
    open_runs: Callable[[EventBroker], Sequence[Run]] | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM.

    ``ready`` is called when both ports are open; UsageError if one cannot be opened. ``open_runs``
    makes the runs that exist from the start.
    """
    token = checked_token(options.token) if options.token else new_token()
    if options.certificate is not None:
        options.certificate.context()  # Report files that cannot be used before all else.
    _allow_more_files()
    with _bound(options.host, options.port, "--port") as sock:
        asyncio.run(_serve(options, token, sock, ready, open_runs))


async def _serve(
    options: ServerOptions,
    token: str,
    sock: socket.socket,
    ready: Callable[[ServerState], None],
    open_runs: Callable[[EventBroker], Sequence[Run]] | None,
) -> None:
    runs, broker = Runs(), EventBroker()
    for run in open_runs(broker) if open_runs is not None else ():
        runs.add(run)
    port: int = sock.getsockname()[1]
    token_check = TokenCheck(token)
    hub = Hub(runs, broker, token_check=token_check, paused=options.paused, output=options.output)
    rank_port = None
    if options.rank_port is not None:
        bound = _bound(options.host, options.rank_port, "--debugger-port")
        rank_port = await hub.start(bound, options.certificate)
    fingerprint = "" if options.certificate is None else options.certificate.fingerprint()
    state = ServerState.of(options.host, port, rank_port, token, fingerprint)
    context = Context(
        runs, broker, rank_port, fingerprint, options.profile, LogDirectories(options.logs)
    )
    app = Guard(
        build_app(context),
        host=options.host,
        port=port,
        token_check=token_check,
        has_tls=options.certificate is not None,
        in_frame=options.in_frame,
    )
    server = _Server(http_config(app, certificate=options.certificate), hub, partial(ready, state))
    with announce_server(state):
        try:
            await server.serve(sockets=[sock])
        finally:
            await hub.stop()
            for run in runs:
                run.close()


class _Server(uvicorn.Server):
    """Returns after a signal, where uvicorn would raise the signal again and end the process before
    files are removed; after ``END_WHEN_UNUSED`` as soon as no training is connected."""

    def __init__(self, config: uvicorn.Config, hub: Hub, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._hub = hub
        self._ready = ready
        self._waiting: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop = asyncio.get_running_loop()
        handlers = {
            signal.SIGINT: self._end,
            signal.SIGTERM: self._end,
            END_WHEN_UNUSED: self._end_when_unused,
        }
        for number, handler in handlers.items():
            loop.add_signal_handler(number, handler)
        try:
            yield
        finally:
            for number in handlers:
                loop.remove_signal_handler(number)

    def _end(self) -> None:
        self.force_exit = self.should_exit
        self.should_exit = True

    def _end_when_unused(self) -> None:
        self._waiting = asyncio.ensure_future(self._wait_until_unused())

    async def _wait_until_unused(self) -> None:
        while self._hub.is_used:
            await asyncio.sleep(_LOOK_SECONDS)
        self.should_exit = True


def http_config(
    app: Guard, idle: IdleConnections | None = None, certificate: ServerCertificate | None = None
) -> uvicorn.Config:
    """uvicorn's settings for ``app``: a bound on everything that a client can ask for."""
    http: Any = partial(IdleLimitedHttp, IdleConnections() if idle is None else idle)
    return uvicorn.Config(
        app,
        http=http,
        log_config=None,
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="off",
        ws="websockets-sansio",
        ws_max_size=64 << 10,
        backlog=BACKLOG,
        limit_concurrency=1000,
        timeout_graceful_shutdown=2,
        ssl_certfile=None if certificate is None else certificate.certificate,
        ssl_keyfile=None if certificate is None else certificate.key or None,
    )


def _allow_more_files() -> None:
    """Raise the limit on open files: every connection is one, and the limit is often 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _bound(host: str, port: int, option: str) -> socket.socket:
    """A socket that listens at a port; ``::`` includes IPv4. ``option`` sets the port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(BACKLOG)
    except (OSError, OverflowError, UnicodeError) as error:
        sock.close()
        raise _taken(host, port, option, error) from None
    return sock


def _taken(host: str, port: int, option: str, error: Exception) -> UsageError:
    place, reason, advice = f"{host}:{port}", str(error), f"choose another port with {option}"
    if isinstance(error, OverflowError):
        reason = "a port is a number from 0 to 65535"
    if isinstance(error, UnicodeError):  # Host names have an encoding of their own.
        place, reason, advice = host, "it is not a host name", _OTHER_HOST
    if isinstance(error, OSError) and error.errno is not None:
        # The error numbers of gaierror are not those of the system.
        is_name = isinstance(error, socket.gaierror)
        reason = str(error.strerror) if is_name else os.strerror(error.errno)
        if is_name or error.errno == errno.EADDRNOTAVAIL:
            place, advice = host, _OTHER_HOST
    return UsageError(f"cannot listen on {place}: {reason}; {advice}", slug="port")
