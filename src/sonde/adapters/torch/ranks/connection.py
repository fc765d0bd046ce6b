"""Sends the reports of this rank to the server, which rank 0 starts where there is none.

The ranks find the server through the store of their process group: rank 0 writes its address there,
the others look for it from time to time. No rank waits for another.
"""

from __future__ import annotations

import logging
import os
import secrets
import signal
import socket
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from typing import Any, Final

import msgspec
import torch.distributed as dist

from sonde.adapters.torch.calling_line import line_of
from sonde.adapters.torch.debugging.training import process_metadata
from sonde.adapters.torch.ranks.recorded_collectives import LineMarks, RecordedCollectives
from sonde.core.errors import SondeError
from sonde.core.finding import Finding
from sonde.core.text.problem_line import ProblemLine
from sonde.debugger.connection.link import Connected, Disconnected, Link, ServerEvent
from sonde.debugger.connection.session import open_session
from sonde.debugger.launch.server_process import ServerProcess
from sonde.logs import say
from sonde.ranks.finding_codec import decode_findings
from sonde.ranks.finding_text import finding_lines
from sonde.ranks.options import RankOptions
from sonde.ranks.report import CollectiveReport, RankReport, ReportError, StackReport, encode
from sonde.wire import rank as messages

_log = logging.getLogger("sonde.debugger")
_KEY: Final = "sonde/ranks/server"
_FLUSH_SECONDS: Final = 0.1
_HURRY_SECONDS: Final = 0.01
_LOOK_SECONDS: Final = 0.25
_END_SECONDS: Final = 20.0
_CONNECT_SECONDS: Final = 10.0
_MOST_FRAMES: Final = 40
_MOST_WAITING: Final = 20_000
_MOST_IN_MESSAGE: Final = 500


class ServerAddress(msgspec.Struct, frozen=True):
    """How a rank reaches the server of its job."""

    host: str
    port: int
    token: str
    run: str
    page: str


class ReportSender:
    """Sends reports from a thread of its own; ``send`` never waits. ``say`` prints a line.

    At most 20,000 reports wait for the server; beyond, the oldest are dropped, and that is said.
    ``is_debugged``: the process has a session with a debugger server, or will have one; the reports
    go there, so that the page shows them.
    """

    def __init__(
        self,
        options: RankOptions,
        store: Any,
        say: Callable[[str], None],
        marks: LineMarks,
        *,
        is_debugged: bool = False,
    ) -> None:
        self._options = options
        self._store = store
        self._say = say
        self.rank = dist.get_rank()
        self.world_size = dist.get_world_size()
        self._training_thread = threading.get_ident()
        self.findings: list[Finding] = []
        self.judged_steps = 0
        self._printed = 0
        self._recorded = RecordedCollectives(self.rank, marks)
        self._waiting: deque[RankReport] = deque()
        self._dropped = 0
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._hurry_from = 0.0
        self._is_ending = False
        self._link: Link | None = None
        self._is_debugged = is_debugged
        self._server: ServerProcess | None = None
        self._is_connected = threading.Event()
        self._summary = threading.Event()
        self._pid = os.getpid()
        self._thread = threading.Thread(target=self._work, name="sonde-ranks", daemon=True)
        self._thread.start()

    def send(self, report: RankReport) -> None:
        with self._lock:
            if len(self._waiting) >= _MOST_WAITING:
                self._waiting.popleft()
                self._dropped += 1
            self._waiting.append(report)
        # A collective that does not fit may end the process: it is reported before it runs.
        if isinstance(report, CollectiveReport) and time.monotonic() > self._hurry_from:
            self._wake.set()

    def close(self) -> None:
        """Send what is left; rank 0 waits until the server has compared everything."""
        if os.getpid() != self._pid:
            return
        self._is_ending = True
        self._wake.set()
        self._thread.join(_END_SECONDS)
        link = self._link
        if link is not None:
            link.send(messages.JobEnd())
            if self.rank == 0:
                self._summary.wait(_END_SECONDS)
            if not self._is_debugged:
                link.close(messages.Goodbye(0, ""))
        if self._dropped:
            self._say(
                ProblemLine(
                    f"sonde: {self._dropped} reports of this rank were not compared, because the "
                    "server did not take them in time",
                    slug="rank-reports-dropped",
                )
            )
        if self._server is not None:
            self._server.leave()

    # ---------------------------------------------------------------- thread

    def _work(self) -> None:
        try:
            self._exchange()
        except SondeError as error:
            self._unchecked(error.message)
        except Exception as error:  # The training goes on, whatever happens in this thread.
            _log.exception("the reports of this rank cannot be sent")
            self._unchecked(f"{type(error).__name__}: {error}")

    def _exchange(self) -> None:
        link = self._shared_link() if self._is_debugged else self._own_link()
        if link is None:
            return
        self._link = link
        link.send(messages.JobStart(self._options.hang_seconds))
        while True:
            is_last = self._is_ending
            for report in self._recorded.new(at_once=is_last):
                self.send(report)
            self._flush(link)
            if is_last:
                return
            self._hurry_from = time.monotonic() + _HURRY_SECONDS
            if self._wake.wait(_FLUSH_SECONDS) and not self._is_ending:
                self._wake.clear()

    def _own_link(self) -> Link | None:
        """A connection to the server of the job, which rank 0 starts."""
        address = self._start() if self.rank == 0 else self._find()
        if address is None:
            return None
        link = Link(
            address.host,
            address.port,
            access=lambda: (address.token, None),
            hello=lambda resumes: self._hello(address.run, resumes),
            deliver=self._deliver,
        )
        link.open(wait_seconds=_CONNECT_SECONDS)
        link.send(messages.Status("running", 0, None, None, None, None, "", 0))
        return link

    def _shared_link(self) -> Link | None:
        """The connection of the debugger, as soon as there is one."""
        while not self._is_ending:
            session = open_session()
            if session is not None and session.is_connected:
                return session.share(self._deliver)
            self._wake.wait(_LOOK_SECONDS)
        return None

    def _start(self) -> ServerAddress:
        is_local = os.environ.get("LOCAL_WORLD_SIZE", "") == str(self.world_size) or (
            os.environ.get("MASTER_ADDR", "127.0.0.1") in ("127.0.0.1", "localhost", "::1")
        )
        self._server = ServerProcess(
            host="127.0.0.1" if is_local else "0.0.0.0", port=0, rank_port=0, pause=False
        )
        host = "127.0.0.1" if is_local else socket.getfqdn()
        run = f"ranks-{secrets.token_hex(4)}"
        found = ServerAddress(
            host, self._server.rank_port, self._server.token, run, self._server.page
        )
        self._store.set(_KEY, msgspec.json.encode(found).decode())
        return found

    def _find(self) -> ServerAddress | None:
        while not self._is_ending:
            try:
                if self._store.check([_KEY]):
                    return msgspec.json.decode(self._store.get(_KEY), type=ServerAddress)
            except (RuntimeError, msgspec.DecodeError):  # The store is gone with rank 0.
                return None
            self._wake.wait(_LOOK_SECONDS)
        return None

    def _flush(self, link: Link) -> None:
        while True:
            with self._lock:
                count = min(len(self._waiting), _MOST_IN_MESSAGE)
                reports = tuple(self._waiting.popleft() for _ in range(count))
            if not reports:
                return
            link.send(messages.RankReports(encode(reports)))

    def _hello(self, run: str, resumes: bool) -> messages.Hello:
        metadata = process_metadata(self.rank, self.world_size)
        return messages.Hello(messages.PROTOCOL, "", run, metadata, resumes)

    def _deliver(self, event: ServerEvent) -> None:
        """Take a message of the server, in the link's thread."""
        match event:
            case Connected():
                self._is_connected.set()
            case Disconnected() if event.for_good:
                self._unchecked(event.why)
            case messages.JobFindings():
                self._receive(event)
            case messages.AskStack():
                self.send(standing(self.rank, self._training_thread))
            case _:
                pass

    def _receive(self, message: messages.JobFindings) -> None:
        try:
            self.findings += decode_findings(message.data)
        except ReportError as error:
            self._unchecked(error.message)
            return
        new = self.findings[self._printed :]
        self._printed = len(self.findings)
        for found in new:
            for line in finding_lines(found):
                say(line)
            if found.rule == "no-progress" and self._options.on_hang == "stop":
                say("the job is stopped, as --on-hang stop says")
                os.kill(os.getpid(), signal.SIGTERM)
        self.judged_steps = message.judged_steps
        if message.is_last:
            self._summary.set()

    def _unchecked(self, why: str) -> None:
        text = f"sonde: the ranks are not compared: {why}"
        self._say(ProblemLine(text, slug="ranks-unchecked"))


def standing(rank: int, thread: int) -> StackReport:
    """Where the training thread of this rank stands."""
    frame = sys._current_frames().get(thread)
    lines = [
        f"{each.filename}:{each.lineno} {each.name}" for each in traceback.extract_stack(frame)
    ]
    own = "" if frame is None else line_of(frame)
    return StackReport(rank, own, tuple(lines[-_MOST_FRAMES:]))
