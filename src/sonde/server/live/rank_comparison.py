"""Compares the ranks of a live run: feeds their reports to the judge, and notices a hang."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Final

from sonde.core.finding import Finding
from sonde.ranks.ends import RaisedError, RankEnds
from sonde.ranks.finding_codec import encode_findings
from sonde.ranks.job import RankJob
from sonde.ranks.report import CollectiveReport, ReportError, StepReport, decode
from sonde.server.http.events import Changes
from sonde.server.live.findings_output import FindingsOutput
from sonde.server.live.rank import LiveRank
from sonde.server.live.ranks import LiveRanks
from sonde.wire.framing import FrameError
from sonde.wire.rank import AskStack, JobFindings, JobStart

_STACK_SECONDS: Final = 3.0
"""How long ranks have to say where they stand."""
_LOOK_SECONDS: Final = 0.5
_STOP_SECONDS: Final = 1.0
"""How long the report of a rank that stopped waits for others that end, and for the rank itself,
which may connect again."""
_JOIN_SECONDS: Final = 20.0
"""How long the end of a job waits for ranks that have not connected."""


class RankComparison:
    """The comparison of one run; without a ``JobStart`` it does nothing. ``output`` takes the
    findings; None: the lowest rank that is connected prints them. Used in the event loop's thread
    only."""

    def __init__(
        self, ranks: LiveRanks, changes: Changes, output: FindingsOutput | None = None
    ) -> None:
        self._ranks = ranks
        self._changes = changes
        self._output = output
        self._job = RankJob()
        self._is_started = False
        self._hang_seconds = 0.0
        self._progress = time.monotonic()
        self._ends = RankEnds()
        self._is_hang_reported = False
        self._is_stop_reported = False
        self._is_finished = False
        self._watching: asyncio.Task[None] | None = None
        self._waiting: asyncio.TimerHandle | None = None
        self._stopping: asyncio.TimerHandle | None = None

    @property
    def job(self) -> RankJob:
        """What the ranks have reported, and the findings about it."""
        return self._job

    @property
    def is_started(self) -> bool:
        """Whether a rank asked for the comparison."""
        return self._is_started

    def start(self, message: JobStart) -> None:
        """Watch for a hang from now on."""
        self._is_started = True
        self._hang_seconds = message.hang_seconds
        self._progress = time.monotonic()
        if self._watching is None and self._hang_seconds > 0:
            self._watching = asyncio.ensure_future(self._watch())

    def receive(self, rank: int, data: bytes) -> None:
        """Take reports of a rank; FrameError if they cannot be read or are of another rank."""
        try:
            reports = decode(data)
        except ReportError as error:
            raise FrameError(error.message) from None
        found: list[Finding] = []
        for report in reports:
            if report.rank != rank:
                raise FrameError(f"rank {rank} sent a report of rank {report.rank}")
            if isinstance(report, (StepReport, CollectiveReport)):
                self._progress = time.monotonic()
                self._is_hang_reported = False
            found += self._job.add(report)
        self._publish(found)

    def join(self, rank: int) -> None:
        """A rank is connected, for the first time or again."""
        self._ends.resume(rank)

    def lose(self, rank: LiveRank) -> None:
        """The connection of a rank is gone: if it has not said that it ends, its process has ended.
        That is reported a moment later, when the ranks that ended with it are known."""
        if rank.goodbye is not None:
            self._ends.end(rank.number, None, time.monotonic())
        else:
            self._ends.lose(rank.number, time.monotonic())
        if not self._finish_if_ended() and self._is_started and self._stopping is None:
            loop = asyncio.get_running_loop()
            self._stopping = loop.call_later(_STOP_SECONDS, self._report_stop)

    def end(self, rank: int, error: RaisedError | None) -> None:
        """A rank has sent its last report. ``error``: the exception that ended its training."""
        self._ends.end(rank, error, time.monotonic())
        self._finish_if_ended()

    def _report_stop(self, *, is_over: bool = False) -> None:
        """Report the first rank that stopped; once, because a launcher then ends the others. A job
        that hangs is ended by a user, or by ``--on-hang stop``: the hang is reported already."""
        self._stopping = None
        if self._is_stop_reported or self._is_hang_reported or len(self._ranks) < 2:
            return
        found = self._job.stopped(self._ends, is_over=is_over)
        self._is_stop_reported = bool(found)
        self._publish(found)

    def _finish_if_ended(self) -> bool:
        """Finish the job if all ranks have ended; whether they have."""
        if not self._is_started or self._is_finished or not self._have_ended():
            return False
        if not self._absent():
            self.finish()
        elif self._waiting is None:  # A short job may end on one rank before another connects.
            loop = asyncio.get_running_loop()
            self._waiting = loop.call_later(_JOIN_SECONDS, self._stop_waiting)
        return True

    def _have_ended(self) -> bool:
        """Whether all ranks that are connected have sent their last report."""
        return all(each.number in self._ends for each in self._ranks.connected())

    def _stop_waiting(self) -> None:
        self._waiting = None
        if self._have_ended():
            self.finish()

    def _absent(self) -> list[int]:
        """The ranks of the job that have never connected."""
        size = max((each.metadata.world_size for each in self._ranks.values()), default=0)
        return [number for number in range(size) if number not in self._ranks]

    def finish(self) -> None:
        """Judge what is left, and report the end of the job; once."""
        if self._is_finished or not self._is_started:
            return
        self._is_finished = True
        if self._watching is not None:
            self._watching.cancel()
        for timer in (self._waiting, self._stopping):
            if timer is not None:
                timer.cancel()
        self._report_stop(is_over=True)
        found = self._job.finish()
        self._publish(found, is_last=True)

    def _publish(self, found: Sequence[Finding], *, is_last: bool = False) -> None:
        if not found and not is_last:
            return
        job = self._job
        if self._output is not None:
            self._output.add(found, job.findings)
            if is_last:
                size = max(job.world_size, len(self._ranks))
                self._output.finish(job.findings, job.judged_steps, size, self._absent())
        message = JobFindings(encode_findings(found), is_last, job.judged_steps)
        receivers = sorted(self._ranks.connected(), key=lambda each: each.number)
        for rank in receivers[: None if is_last else 1]:
            rank.send(message)
        self._changes.touch("status")

    async def _watch(self) -> None:
        """Report once that no rank makes progress; again after there was some."""
        while True:
            await asyncio.sleep(min(_LOOK_SECONDS, self._hang_seconds / 4))
            silent = time.monotonic() - self._progress
            if silent < self._hang_seconds or self._is_hang_reported or not self._job.ranks:
                continue
            self._is_hang_reported = True
            for rank in self._ranks.connected():
                rank.send(AskStack())
            await asyncio.sleep(_STACK_SECONDS)
            gone = {
                number: "its process has ended"
                for number, rank in self._ranks.items()
                if rank.link is None or rank.goodbye is not None
            }
            if len(gone) < len(self._ranks):
                self._publish([self._job.hang(gone, time.monotonic() - self._progress)])
