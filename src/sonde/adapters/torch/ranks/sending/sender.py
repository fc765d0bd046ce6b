"""Sends the reports of this rank to the server, which rank 0 starts where there is none.

The ranks find the server through the store of their process group: rank 0 writes its address there,
the others look for it from time to time. No rank waits for another.
"""

from __future__ import annotations

import itertools
import logging
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any, Final

import msgspec
import torch.distributed as dist

from sonde.adapters.torch.calling_line import line_of
from sonde.adapters.torch.debugging.training import process_metadata
from sonde.adapters.torch.ranks.communication.recorded_collectives import (
    LineMarks,
    RecordedCollectives,
)
from sonde.adapters.torch.ranks.gradients.ddp_buckets import DdpBuckets
from sonde.adapters.torch.ranks.sending.job_end import job_end
from sonde.adapters.torch.ranks.sending.job_server import JobServer, ServerAddress
from sonde.adapters.torch.ranks.sending.outbox import Outbox
from sonde.core.errors import SondeError
from sonde.core.finding import Finding
from sonde.core.interruption import start_thread
from sonde.core.text.problem_line import ProblemLine
from sonde.core.threads.thread_event import ThreadEvent
from sonde.debugger.connection.link import Disconnected, Link, ServerEvent
from sonde.debugger.connection.session import open_session
from sonde.logs import say
from sonde.ranks.finding_codec import decode_findings
from sonde.ranks.finding_text import finding_lines
from sonde.ranks.options import RankOptions
from sonde.ranks.report import CollectiveReport, RankReport, ReportError, StackReport, encode
from sonde.wire import rank as messages

_log = logging.getLogger("sonde.debugger")
_JOBS: Final = itertools.count()
"""Numbers the jobs of this process, as those of the other ranks: the store may still have the
address of the server of an earlier one."""
_FLUSH_SECONDS: Final = 0.1
_HURRY_SECONDS: Final = 0.01
_LOOK_SECONDS: Final = 0.25
_MEET_SECONDS: Final = 5.0
_FIND_SECONDS: Final = 25.0
_SETTLE_SECONDS: Final = 20.0
_END_SECONDS: Final = 30.0
_LAST_SECONDS: Final = 2.0
_CONNECT_SECONDS: Final = 10.0
_MOST_FRAMES: Final = 40
_MOST_CALLS: Final = 2000


class ReportSender:
    """Sends reports from a thread of its own; ``send`` never waits. ``say`` prints a line.

    At most 20,000 reports wait for the server; beyond, the oldest are dropped, and that is said.
    ``is_debugged``: the process has a session with a debugger server, or will have one; the reports
    go there, so that the page shows them, and the lowest rank prints the findings. ``server``: the
    one of the job, if it was started before.
    """

    def __init__(
        self,
        options: RankOptions,
        store: Any,
        say: Callable[[str], None],
        marks: LineMarks,
        buckets: DdpBuckets,
        *,
        is_debugged: bool = False,
        server: JobServer | None = None,
    ) -> None:
        self._options = options
        self._store = store
        number = next(_JOBS)
        self._address_key = f"sonde/ranks/{number}/server"
        self._found_key = f"sonde/ranks/{number}/found"
        self._say = say
        self.rank = dist.get_rank()
        self.world_size = dist.get_world_size()
        self._training_thread = threading.get_ident()
        self.findings: list[Finding] = []
        self.judged_steps = 0
        self._printed = 0
        self._recorded = RecordedCollectives(self.rank, marks, buckets)
        self._outbox = Outbox()
        self._wake = ThreadEvent()
        self._hurry_from = 0.0
        self._is_ending = False
        self._ended_at = 0.0
        self._link: Link | None = None
        self._is_debugged = is_debugged
        self._server = server
        self._calls: set[tuple[object, ...]] = set()
        self._summary = ThreadEvent()
        self._met = ThreadEvent()
        self._pid = os.getpid()
        self._thread = threading.Thread(target=self._work, name="sonde-ranks", daemon=True)
        start_thread(self._thread)

    def send(self, report: RankReport) -> None:
        self._outbox.add(report)
        if isinstance(report, CollectiveReport):
            self._hurry(report)

    def _hurry(self, report: CollectiveReport) -> None:
        """A collective that does not fit may end the process: it is reported before it runs. A call
        that this rank makes for the first time is sent from this thread, unless another sends."""
        call = (report.group, report.kind, report.count, report.dtype, report.source)
        if report.by == "calls" and call not in self._calls and len(self._calls) < _MOST_CALLS:
            self._calls.add(call)
            if self._link is not None:
                self._flush(self._link, waits=False)
        if time.monotonic() > self._hurry_from:
            self._wake.set()

    def close(self, error: BaseException | None = None) -> None:
        """Send what is left, and wait until the server has compared everything: rank 0 for up to
        30 s, the others for up to 2 s, so that the last to end still sees the summary printed.
        ``error``: the exception that ended the training."""
        if os.getpid() != self._pid:
            return
        self._ended_at = time.monotonic()
        self._is_ending = True
        self._wake.set()
        self._thread.join(_END_SECONDS)
        link = self._link
        if link is not None:
            link.send(job_end(error))
            self._summary.wait(_END_SECONDS if self.rank == 0 else _LAST_SECONDS)
            if not self._is_debugged:
                link.close(messages.Goodbye(0, ""))
        if dropped := self._outbox.dropped:
            self._say(
                ProblemLine(
                    f"sonde: {dropped} reports of this rank were not compared, because the "
                    "server did not take them in time",
                    slug="rank-reports-dropped",
                )
            )
        if self._server is not None:
            self._server.leave()

    def meet(self) -> None:
        """Wait some seconds until this rank is connected to the server: the job may crash a moment
        later. Ranks do not wait for each other."""
        if not self._is_debugged:
            self._met.wait(_MEET_SECONDS)

    def settle(self) -> None:
        """The store is about to go: wait some seconds until this rank knows the server, and rank 0
        until all do. A job of a second ends before its server has started."""
        deadline = time.monotonic() + _SETTLE_SECONDS
        while time.monotonic() < deadline and self._thread.is_alive() and not self._is_settled():
            time.sleep(_LOOK_SECONDS / 10)

    def _is_settled(self) -> bool:
        if self.rank or self._is_debugged or self._link is None:
            return self._is_debugged or self._link is not None
        return int(self._store.add(self._found_key, 0)) >= self.world_size - 1

    # ---------------------------------------------------------------- thread

    def _work(self) -> None:
        try:
            self._exchange()
        except SondeError as error:
            self._unchecked(error.message)
        except Exception as error:  # The training goes on, whatever happens in this thread.
            _log.exception("the reports of this rank cannot be sent")
            self._unchecked(f"{type(error).__name__}: {error}")
        finally:
            self._met.set()

    def _exchange(self) -> None:
        link = self._shared_link() if self._is_debugged else self._own_link()
        if link is None:
            return
        self._link = link
        self._met.set()
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
        if self._server is None:
            self._server = JobServer(self._options.findings_file)
        found = self._server.address()
        self._store.set(self._address_key, msgspec.json.encode(found).decode())
        return found

    def _find(self) -> ServerAddress | None:
        """The address that rank 0 has written; of a job that ends sooner, some seconds longer."""
        pause = _LOOK_SECONDS / 16
        while not self._is_late():
            try:
                if self._store.check([self._address_key]):
                    text = self._store.get(self._address_key)
                    self._store.add(self._found_key, 1)
                    return msgspec.json.decode(text, type=ServerAddress)
            except (RuntimeError, msgspec.DecodeError):  # The store is gone with rank 0.
                return None
            time.sleep(pause)
            pause = min(2 * pause, _LOOK_SECONDS)
        return None

    def _is_late(self) -> bool:
        return self._is_ending and time.monotonic() > self._ended_at + _FIND_SECONDS

    def _flush(self, link: Link, *, waits: bool = True) -> None:
        self._outbox.empty(
            lambda reports: link.send(messages.RankReports(encode(reports))), waits=waits
        )

    def _hello(self, run: str, resumes: bool) -> messages.Hello:
        metadata = process_metadata(self.rank, self.world_size)
        return messages.Hello(messages.PROTOCOL, "", run, metadata, resumes)

    def _deliver(self, event: ServerEvent) -> None:
        """Take a message of the server, in the link's thread."""
        match event:
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
            for line in finding_lines(found) if self._is_debugged else ():
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
