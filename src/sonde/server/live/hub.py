"""Listens on the port to which ranks connect."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from typing import Final

from sonde.server.http.auth import TokenCheck
from sonde.server.http.events import EventBroker
from sonde.server.http.idle_connections import IdleConnections
from sonde.server.live.findings_output import FindingsOutput
from sonde.server.live.rank_link import RankLink
from sonde.server.live.run import RUN_NAME, LiveRun
from sonde.server.run import Runs
from sonde.wire.framing import MOST_HELLO_BYTES, FrameError, frame, notice_absence, read_message
from sonde.wire.rank import HEARTBEAT_SECONDS, PROTOCOL, Hello, Refused
from sonde.wire.tls import ServerCertificate

MOST_CONNECTIONS: Final = 4096
MOST_RUNS: Final = 100
BACKLOG: Final = 128
"""The number of connections that wait to be accepted."""

_WRONG_TOKEN: Final = "wrong token; set SONDE_DEBUGGER_TOKEN to the token of the server"

_log = logging.getLogger("sonde.server")


class Hub:
    """Accepts connections of ranks, checks them, and passes their messages to the runs.

    Invalid data on a connection ends that connection and has no other effect.
    """

    def __init__(
        self,
        runs: Runs,
        broker: EventBroker,
        *,
        token_check: TokenCheck,
        paused: bool,
        output: FindingsOutput | None = None,
        idle: IdleConnections | None = None,
        heartbeat_seconds: float = HEARTBEAT_SECONDS,
    ) -> None:
        self._runs = runs
        self._broker = broker
        self._token_check = token_check
        self._paused = paused
        self._output = output
        self._idle = IdleConnections() if idle is None else idle
        self._heartbeat_seconds = heartbeat_seconds
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self, sock: socket.socket, certificate: ServerCertificate | None = None) -> int:
        """Accept connections on ``sock``, which is bound to a port, with TLS if there is a
        ``certificate``; returns the port."""
        tls = None if certificate is None else certificate.context()
        self._server = await asyncio.start_server(self._accept, sock=sock, backlog=BACKLOG, ssl=tls)
        port: int = sock.getsockname()[1]
        return port

    @property
    def is_used(self) -> bool:
        """Whether a training is connected."""
        live = (run for run in self._runs if isinstance(run, LiveRun))
        return not all(run.may_be_forgotten for run in live)

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        self._idle.opened(task, task.cancel)
        notice_absence(writer.get_extra_info("socket"))
        try:
            if len(self._connections) <= MOST_CONNECTIONS:
                await self._serve(task, reader, writer)
        except (OSError, asyncio.CancelledError):
            pass
        except Exception:  # A failure of one connection must not affect the others.
            _log.exception("the connection of a rank failed")
        finally:
            self._idle.active(task)
            self._connections.discard(task)
            writer.close()

    async def _serve(
        self,
        task: asyncio.Task[None],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        try:
            hello = await read_message(reader, MOST_HELLO_BYTES)
        except FrameError as error:
            _log.info("closed a connection that is not a rank: %s", error.message)
            return
        self._idle.active(task)
        if not isinstance(hello, Hello):
            return
        is_known = self._token_check.accepts([hello.token])
        refusal = self._refusal(hello) if is_known else _WRONG_TOKEN
        if refusal:
            _log.info("refused rank %d: %s", hello.metadata.rank, refusal)
            writer.write(frame(Refused(refusal)))
            await writer.drain()
            return
        _log.info("rank %d of run %s connected", hello.metadata.rank, hello.run)
        try:
            await self._receive_all(self._run(hello), hello, reader, writer)
        finally:
            _log.info("rank %d of run %s is disconnected", hello.metadata.rank, hello.run)

    def _refusal(self, hello: Hello) -> str:
        if hello.protocol != PROTOCOL:
            return (
                f"this server uses version {PROTOCOL} of the protocol, the training "
                f"{hello.protocol}; use the same version of Sonde for both"
            )
        if RUN_NAME.fullmatch(hello.run) is None:
            return "the id of the run may contain only letters, digits, '.', '-' and '_'"
        if not 0 <= hello.metadata.rank < MOST_CONNECTIONS:
            return f"rank {hello.metadata.rank} is out of range"
        if hello.run not in self._runs:
            return "" if self._make_room() else f"{MOST_RUNS} runs are connected already"
        return self._duplicate(hello)

    def _duplicate(self, hello: Hello) -> str:
        """Refuse a second process with the same rank: each would disconnect the other in turn."""
        run = self._runs.find(hello.run)
        if not isinstance(run, LiveRun):
            return f"{hello.run} is the id of a dump on this server"
        known = run.ranks.get(hello.metadata.rank)
        is_free = known is None or known.link is None or known.goodbye is not None
        if known is None or is_free or known.is_same(hello):
            return ""
        there = known.metadata
        return (
            f"rank {there.rank} of run {hello.run} is connected already, as process {there.pid} "
            f"on {there.host}; give each training its own SONDE_RUN_ID"
        )

    def _make_room(self) -> bool:
        """Forget the oldest ended runs if there are too many; False if all are connected."""
        while len(self._runs) >= MOST_RUNS:
            ended = next((run for run in self._runs if run.may_be_forgotten), None)
            if ended is None:
                return False
            self._runs.forget(ended.id)
        return True

    def _run(self, hello: Hello) -> LiveRun:
        found = self._runs.find(hello.run) if hello.run in self._runs else None
        if isinstance(found, LiveRun):
            return found
        run = LiveRun(hello.run, self._broker, paused=self._paused, output=self._output)
        self._runs.add(run)
        return run

    async def _receive_all(
        self, run: LiveRun, hello: Hello, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        link = RankLink(writer, f"rank {hello.metadata.rank}")
        rank, welcome = run.join(hello, link, heartbeat_seconds=self._heartbeat_seconds)
        link.send(welcome)
        why = "the connection was lost"
        beating = asyncio.ensure_future(self._beat(run, link))
        try:
            while (message := await read_message(reader)) is not None:
                run.hear(link)
                run.messages.receive(rank, link, message)
            why = ""
        except FrameError as error:
            why = f"{error.message}; its connection was closed"
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            beating.cancel()
            with contextlib.suppress(OSError):
                run.leave(rank, link, "" if rank.goodbye is not None else why)

    async def _beat(self, run: LiveRun, link: RankLink) -> None:
        """Send heartbeats until the connection ends; a rank that answers none is shown as such."""
        while self._heartbeat_seconds:
            await asyncio.sleep(self._heartbeat_seconds)
            run.beat(link)
