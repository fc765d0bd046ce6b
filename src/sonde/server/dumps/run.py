"""A dump on disk as a run: the same page as for a training."""

from __future__ import annotations

import asyncio
import contextlib
import math
import re
import threading
from collections.abc import Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Final

from sonde.core.errors import SondeError, UsageError
from sonde.debugger.values import answers
from sonde.debugger.values.answers import Values
from sonde.diagnosis.wire_form import diagnosis_view
from sonde.dump.reader import Dump
from sonde.server.comparison.background import BackgroundComparison
from sonde.server.dumps.check import is_leaf
from sonde.server.dumps.contents import DumpContents
from sonde.server.dumps.index import IndexedDump
from sonde.server.dumps.recheck import BackgroundCheck
from sonde.server.findings import finding_headline
from sonde.server.graph.index import GraphIndex
from sonde.server.graph.level_values import OpValues
from sonde.server.headlines import cause_headline, stored_loss_headline, verdict_headline
from sonde.server.health.source import TrendSource
from sonde.server.health.stored import StoredTrends
from sonde.server.hit_store import HitStore
from sonde.server.http.events import Changes, EventBroker
from sonde.server.run import NpyFile, Question
from sonde.server.watchpoint_set import WatchpointSet
from sonde.wire.api import (
    ControlRequest,
    KeepRequest,
    LossCurve,
    RecordRequest,
    RunHeadline,
    RunView,
    StatisticCurve,
)
from sonde.wire.questions import AnyAnswer, AskCompare, AskOp
from sonde.wire.shapes import BoxStatistic, DiagnosisView, Hit, LossPoint, TensorName
from sonde.wire.watchpoints import Preview, WatchpointDraft

_MOST_PREPARED: Final = 500_000
_MOST_GRAPHS: Final = 20
"""So many graphs of a rank are loaded before the page asks for them."""
_FIRST_SCREEN_SECONDS: Final = 0.5
"""Time for the page to load the graph, before the rest of the dump is listed."""


class DumpRun:
    """One dump. Files are read in threads; everything else happens in the event loop's thread."""

    def __init__(self, run: str, path: Path, broker: EventBroker) -> None:
        self.id = run
        self._changes = Changes(run, broker)
        self._index = IndexedDump(path)
        self._contents = DumpContents(self._index)
        self.watchpoints = WatchpointSet()
        self.hits = HitStore(lambda hit: is_leaf(self._index, hit))
        self._check: BackgroundCheck | None = None
        self._closed = threading.Event()
        self._preparing: asyncio.Future[None] | None = None
        self._first_check: asyncio.Future[None] | None = None
        self._verdicts = cache(self.dump.verdict)
        self._trends = StoredTrends(path, self._contents.losses, self._contents.has_op)
        # By rank, as far as they were asked for: reading them takes time.
        self._losses: dict[int, Sequence[LossPoint]] = {}
        self.peer: str | None = None
        self.comparison: BackgroundComparison | None = None

    @property
    def dump(self) -> Dump:
        return self._index.dump

    @property
    def may_be_forgotten(self) -> bool:
        return False

    def view(self) -> RunView:
        check, contents = self._check, self._contents
        notices = [str(problem) for problem in self.dump.problems[:200]]
        if check is not None and check.failure:
            notices.append(check.failure)
        return RunView(
            id=self.id,
            kind="dump",
            title=str(self.dump.path),
            revision=self._changes.revision,
            ranks=tuple(
                contents.rank_view(rank, self.hits.count(rank)) for rank in self.dump.ranks
            ),
            watchpoints=self.watchpoints.all,
            controls=(),
            notices=tuple(notices),
            peer=self.peer,
            recheck=None if check is None else check.view(len(self.hits)),
            unobserved=tuple(each.message for each in self.dump.problems if each.is_gap),
            headline=self._headline(),
            diagnosis=self.diagnosis,
            opens_with_health=self._trends.has_files,
        )

    @cached_property
    def diagnosis(self) -> DiagnosisView | None:
        """That of the lowest rank that has one."""
        found = next(filter(None, map(self.dump.diagnosis, self.dump.ranks)), None)
        if found is None:
            return None
        return diagnosis_view(found.findings, found.steps, is_over=True)

    def _headline(self) -> RunHeadline | None:
        """A divergence from the other dump, the verdict of an overflow dump, an established
        finding, or the first cause of the hits; the op that made NaN or Inf before a finding. Else
        a loss that is NaN or infinite, once the page has asked for the losses."""
        if self.comparison is not None and self.comparison.headline is not None:
            return self.comparison.headline
        several = len(self.dump.ranks) > 1
        for rank in self.dump.ranks:
            told = self._verdicts(rank)
            if told is not None and told.text:
                return verdict_headline(told, rank, is_one_of_several=several)
        cause = self.hits.causes.first()
        finding = finding_headline(self.diagnosis, min(self.dump.ranks, default=0))
        if cause is not None and (cause.origin or finding is None):
            return cause_headline(cause, is_one_of_several=several)
        return finding or stored_loss_headline(self._losses, is_one_of_several=several)

    # --------------------------------------------------------------- questions

    async def graph(self, rank: int | None, graph: int | None) -> GraphIndex:
        return await asyncio.to_thread(self._contents.graph, rank, graph)

    def graph_of(self, rank: int, step: int) -> int | None:
        return self._contents.graph_of(rank, step)

    async def ask(self, rank: int | None, tensor: TensorName, question: Question) -> AnyAnswer:
        if isinstance(question, AskOp):
            return await asyncio.to_thread(self._contents.op_tensors, rank, tensor)
        values = await self.values(rank, tensor)
        other = None
        if isinstance(question, AskCompare):
            other = await self.values(rank, question.other)
        return await asyncio.to_thread(answers.answer, question, values, other)

    async def values(self, rank: int | None, tensor: TensorName) -> Values:
        return await asyncio.to_thread(self._contents.values, rank, tensor)

    async def file(self, rank: int | None, tensor: TensorName) -> NpyFile:
        values = await self.values(rank, tensor)
        header = next(answers.npy_chunks(values))
        return NpyFile(len(header) + values.array.nbytes, answers.npy_chunks(values))

    async def curve(self, rank: int | None, tensor: TensorName) -> StatisticCurve:
        return await asyncio.to_thread(self._contents.curve, rank, tensor)

    async def op_values(
        self, rank: int | None, graph: int | None, step: int | None, statistic: BoxStatistic
    ) -> OpValues:
        if statistic == "distance":
            return await asyncio.to_thread(self._distances, rank)
        return await asyncio.to_thread(self._contents.op_values, rank, graph, step, statistic)

    def _distances(self, rank: int | None) -> OpValues:
        """The relative error of each op to its counterpart in the other dump."""
        comparison = self.comparison
        if comparison is None or comparison.pages is None:
            raise UsageError(
                "the comparison has failed or is not finished yet", slug="no-comparison"
            )
        number, is_a = self._contents.chosen_rank(rank), comparison.side(self.id) == "a"
        errors: dict[str, float] = {}
        for pair in comparison.pages.found.pairs:
            if pair.rank == number and not math.isnan(pair.error):
                op = pair.a if is_a else pair.b
                errors[op] = max(pair.error, errors.get(op, 0.0))
        return OpValues("distance", None, errors)

    async def loss(self, rank: int | None, after: int) -> LossCurve:
        number = self._contents.chosen_rank(rank)
        points = await asyncio.to_thread(self._trends.loss_points, number)
        if number not in self._losses:
            self._losses[number] = points
            self._changes.touch("status")
        return LossCurve(number, tuple(each for each in points if each.step > after))

    async def trends(self, rank: int | None) -> TrendSource:
        return await asyncio.to_thread(self._trends.of_rank, self._contents.chosen_rank(rank))

    async def control(self, request: ControlRequest) -> None:
        raise UsageError(
            "this is a dump on disk, not a training that can be controlled", slug="not-live"
        )

    async def keep(self, request: KeepRequest) -> None:
        raise UsageError("a dump cannot keep further values", slug="not-live")

    async def preview(self, rank: int | None, draft: WatchpointDraft) -> Preview:
        return Preview(None, 0, 0, 0)  # "check all steps" evaluates a dump.

    async def record(self, request: RecordRequest) -> None:
        raise UsageError("a dump cannot record further statistics", slug="not-live")

    def measure_speed(self) -> None:
        raise UsageError("a dump is not a training whose speed can be measured", slug="not-live")

    # ------------------------------------------------------------------- check

    async def recheck(self, wait_seconds: float) -> None:
        """Start the check again, with the present watchpoints."""
        waiting = self.start_check()
        if wait_seconds > 0:
            await asyncio.wait({waiting}, timeout=min(wait_seconds, 3600.0))
        await asyncio.sleep(0)  # So that the last hits of the thread are added first.

    def start_check(self) -> asyncio.Future[None]:
        """Check the watchpoints from the beginning; the future is done when the check is."""
        if self._check is not None:
            self._check.stop()
        self.hits.clear()
        check = self._check = BackgroundCheck(self._index, self.watchpoints.all, self._take)
        self._changes.touch("hits", "status")
        return asyncio.ensure_future(asyncio.to_thread(check.run))

    def check_when_prepared(self) -> None:
        """Start the first check when the dump is listed, so that the page is shown before."""

        async def check() -> None:
            await self.prepared()
            if not self._closed.is_set() and self._check is None:
                self.start_check()

        self._first_check = asyncio.ensure_future(check())

    def stop_recheck(self) -> None:
        if self._check is not None:
            self._check.stop()
            self._changes.touch("status")

    def _take(self, check: BackgroundCheck, hits: Sequence[Hit]) -> None:
        """Add the hits of a check, and announce its progress."""
        if check is self._check:
            self.hits.add(hits)
            self._changes.touch("hits", "status")

    def need_watchable(self) -> None:
        """The values of a dump can always be checked."""

    def watchpoints_changed(self) -> None:
        self._changes.touch("watchpoints")

    def comparison_changed(self) -> None:
        self._changes.touch("status")

    # ------------------------------------------------------------- preparation

    def prepare(self) -> None:
        """List the dump in the background, so that the first questions are answered fast."""
        self._preparing = asyncio.ensure_future(asyncio.to_thread(self._prepare))

    def _prepare(self) -> None:
        with contextlib.suppress(SondeError, OSError):  # The page gets the error when it asks.
            self._list_steps()
        self._index.keep()

    def _list_steps(self) -> None:
        listed = 0
        for rank in self.dump.ranks:
            self._contents.graph(rank, None)
        if self.dump.captured():  # Listing a captured step means to execute it.
            return
        self._closed.wait(_FIRST_SCREEN_SECONDS)
        self._load_graphs()
        for rank in self.dump.ranks:
            for directory in reversed(self._index.steps(rank)):
                if self._closed.is_set() or listed > _MOST_PREPARED:
                    return
                listed += len(self._index.listing(directory).tensors)

    def _load_graphs(self) -> None:
        """Load the other graphs, so that the list of graphs says how they differ."""
        for rank in self.dump.ranks:
            for number in self._contents.graph_ids(rank)[:_MOST_GRAPHS]:
                if not self._closed.is_set():
                    self._contents.graph(rank, number)
        self._changes.touch("status")

    async def prepared(self) -> None:
        """Wait until the work that ``prepare`` started is done."""
        if self._preparing is not None:
            await self._preparing

    def close(self) -> None:
        self._closed.set()
        if self._check is not None:
            self._check.stop()
        if self.comparison is not None:
            self.comparison.stop()
        self._trends.close()


def open_dumps(paths: Sequence[Path], broker: EventBroker) -> list[DumpRun]:
    """A run for each dump; two dumps are peers, to be compared. DumpError if one is not a dump."""
    runs: list[DumpRun] = []
    for path in paths:
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", path.absolute().name).strip("-.") or "dump"
        taken = {run.id for run in runs}
        number = next(n for n in range(1, 100) if (name if n == 1 else f"{name}-{n}") not in taken)
        runs.append(DumpRun(name if number == 1 else f"{name}-{number}", path, broker))
    if len(runs) == 2:
        runs[0].peer, runs[1].peer = runs[1].id, runs[0].id
    return runs


def start_comparison(a: DumpRun, b: DumpRun) -> asyncio.Future[None]:
    """Compare two dumps in the background, once both are prepared; done when the comparison is."""

    def changed() -> None:
        a.comparison_changed()
        b.comparison_changed()

    found = BackgroundComparison((a.id, a.dump), (b.id, b.dump), changed)
    a.comparison = b.comparison = found

    async def run() -> None:
        await asyncio.gather(a.prepared(), b.prepared())
        await asyncio.to_thread(found.run)

    return asyncio.ensure_future(run())
