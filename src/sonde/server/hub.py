"""The port ranks connect to."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from typing import Any, Final

from sonde.server.door import Door
from sonde.server.events import EventBoard
from sonde.server.frames import MOST_HELLO_BYTES, BadFrameError, frame, read_message
from sonde.server.live_run import RUN_NAME, LiveRun
from sonde.server.rank_link import RankLink
from sonde.server.source import Runs
from sonde.server.strangers import Strangers
from sonde.wire.liveness import notice_absence
from sonde.wire.rank import PROTOCOL, Hello, Refused

MOST_CONNECTIONS: Final = 4096
MOST_RUNS: Final = 100
BACKLOG: Final = 128
"""So many connections are accepted before one of them is looked at, or sent away."""

_WRONG_TOKEN: Final = "its token is not that of the server; set SONDE_DEBUGGER_TOKEN"

_log = logging.getLogger("sonde.server")


class Hub:
    """Accepts ranks, checks who they are, and hands what they say to their runs.

    Nothing a connection sends can do more than end that connection.
    """

    def __init__(self, runs: Runs, board: EventBoard, *, door: Door, paused: bool) -> None:
        self._runs = runs
        self._board = board
        self._door = door
        self._paused = paused
        self._strangers = Strangers()
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen; the port. OSError if it cannot be had. At ``::`` also to IPv4, as the port of the
        page does."""
        place: dict[str, Any] = {"host": host, "port": port}
        if host == "::" and socket.has_dualstack_ipv6():
            place = {
                "sock": socket.create_server(
                    (host, port), family=socket.AF_INET6, dualstack_ipv6=True
                )
            }
        self._server = await asyncio.start_server(self._accept, **place, backlog=BACKLOG)
        found: int = self._server.sockets[0].getsockname()[1]
        return found

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
        self._strangers.came(task, task.cancel)
        notice_absence(writer.get_extra_info("socket"))
        try:
            if len(self._connections) <= MOST_CONNECTIONS:
                await self._serve(task, reader, writer)
        except (OSError, asyncio.CancelledError):
            pass
        except Exception:  # One connection must never harm the others.
            _log.exception("the connection of a rank failed")
        finally:
            self._strangers.spoke(task)
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
        except BadFrameError as error:
            _log.info("a connection that is no rank: %s", error)
            return
        self._strangers.spoke(task)
        if not isinstance(hello, Hello):
            return
        is_known = self._door.opens([hello.token])
        refusal = self._refusal(hello) if is_known else _WRONG_TOKEN
        if refusal:
            writer.write(frame(Refused(refusal)))
            await writer.drain()
            return
        await self._converse(self._run(hello), hello, reader, writer)

    def _refusal(self, hello: Hello) -> str:
        if hello.protocol != PROTOCOL:
            return (
                f"this server speaks version {PROTOCOL} of the protocol, the training "
                f"{hello.protocol}; use the same version of Sonde for both"
            )
        if RUN_NAME.fullmatch(hello.run) is None:
            return "the name of the run has letters other than a-z, 0-9, '.', '-' and '_'"
        if not 0 <= hello.metadata.rank < MOST_CONNECTIONS:
            return f"rank {hello.metadata.rank} is out of bounds"
        if hello.run not in self._runs:
            return "" if self._make_room() else f"{MOST_RUNS} runs are connected already"
        return self._rival(hello)

    def _rival(self, hello: Hello) -> str:
        """Two processes that both say they are one rank would push each other out for ever."""
        run = self._runs.find(hello.run)
        if not isinstance(run, LiveRun):
            return f"{hello.run} is the name of a dump here"
        known = run.ranks.get(hello.metadata.rank)
        if known is None or known.link is None:
            return ""
        there, here = known.metadata, hello.metadata
        if (there.host, there.pid) == (here.host, here.pid):
            return ""
        return (
            f"rank {here.rank} of run {hello.run} is connected already, as process {there.pid} "
            f"on {there.host}; give each training its own SONDE_RUN_ID"
        )

    def _make_room(self) -> bool:
        """Forget the oldest run that ended if there are too many."""
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
        run = LiveRun(hello.run, self._board, paused=self._paused)
        self._runs.add(run)
        return run

    async def _converse(
        self, run: LiveRun, hello: Hello, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        link = RankLink(writer, f"rank {hello.metadata.rank}")
        rank, welcome = run.join(hello, link)
        link.send(welcome)
        why = "the connection was cut"
        try:
            while (message := await read_message(reader)) is not None:
                run.take(rank, link, message)
            why = ""
        except BadFrameError as error:
            why = f"{error}; its connection was closed"
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            with contextlib.suppress(OSError):
                run.leave(rank, link, "" if rank.goodbye is not None else why)
