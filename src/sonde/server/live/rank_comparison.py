"""Compares the ranks of a live run: feeds their reports to the judge, and notices a hang."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Final

from sonde.core.finding import Finding
from sonde.ranks.finding_codec import encode_findings
from sonde.ranks.job import RankJob
from sonde.ranks.report import CollectiveReport, ReportError, StepReport, decode
from sonde.server.http.events import Changes
from sonde.server.live.ranks import LiveRanks
from sonde.wire.framing import FrameError
from sonde.wire.rank import AskStack, JobFindings, JobStart

_STACK_SECONDS: Final = 3.0
"""How long ranks have to say where they stand."""
_LOOK_SECONDS: Final = 0.5


class RankComparison:
    """The comparison of one run; without a ``JobStart`` it does nothing. Used in the event loop's
    thread only."""

    def __init__(self, ranks: LiveRanks, changes: Changes) -> None:
        self._ranks = ranks
        self._changes = changes
        self._job = RankJob()
        self._is_started = False
        self._hang_seconds = 0.0
        self._progress = time.monotonic()
        self._ended: set[int] = set()
        self._is_hang_reported = False
        self._is_finished = False
        self._watching: asyncio.Task[None] | None = None

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

    def lose(self, rank: int) -> None:
        """The connection of a rank is gone: if it had more to report, its process has ended."""
        if self._is_started and rank not in self._ended and self._goes_on(rank):
            self._publish([self._job.stopped(rank)])
        self.end(rank)

    def _goes_on(self, rank: int) -> bool:
        """Whether another rank has not ended."""
        others = {each.number for each in self._ranks.connected()} - {rank}
        return bool(others - self._ended)

    def end(self, rank: int) -> None:
        """A rank has sent its last report, or is gone."""
        self._ended.add(rank)
        connected = {each.number for each in self._ranks.connected()}
        if connected <= self._ended and not self._is_finished:
            self._finish()

    def _finish(self) -> None:
        self._is_finished = True
        if self._watching is not None:
            self._watching.cancel()
        found = self._job.finish()
        self._publish(found, is_last=True)

    def _publish(self, found: Sequence[Finding], *, is_last: bool = False) -> None:
        if not found and not is_last:
            return
        message = JobFindings(encode_findings(found), is_last, self._job.judged_steps)
        receiver = min(self._ranks.connected(), key=lambda each: each.number, default=None)
        if receiver is not None:
            receiver.send(message)
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
