"""The protocol of a run, live or a dump on disk, and the runs of a server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from sonde.core.errors import UsageError
from sonde.debugger.values.answers import Values
from sonde.server.graph.index import GraphIndex
from sonde.server.graph.level_values import OpValues
from sonde.server.health.source import TrendSource
from sonde.server.hit_store import HitStore
from sonde.server.watchpoint_set import WatchpointSet
from sonde.wire.api import (
    ControlRequest,
    KeepRequest,
    LossCurve,
    RecordRequest,
    RunView,
    StatisticCurve,
)
from sonde.wire.questions import AnyAnswer, AskCompare, AskHeat, AskOp, AskSummary, AskTable
from sonde.wire.shapes import BoxStatistic, DiagnosisView, TensorName
from sonde.wire.watchpoints import Preview, WatchpointDraft

Question = AskSummary | AskTable | AskHeat | AskCompare | AskOp


@dataclass(frozen=True, slots=True, eq=False)
class NpyFile:
    """The bytes of an ``.npy`` file, ``size`` of them, in pieces."""

    size: int
    chunks: Iterator[bytes]


class Run(Protocol):
    """One run. ``rank`` None is the lowest rank, ``graph`` None the one that runs, or ran last.

    Methods raise UsageError for a rank, graph or tensor that does not exist. They are called in the
    event loop's thread.
    """

    id: str
    watchpoints: WatchpointSet
    hits: HitStore

    @property
    def may_be_forgotten(self) -> bool: ...

    @property
    def diagnosis(self) -> DiagnosisView | None:
        """What a diagnosis of the training found; None if it was not diagnosed."""
        ...

    def view(self) -> RunView: ...

    async def control(self, request: ControlRequest) -> None: ...

    async def graph(self, rank: int | None, graph: int | None) -> GraphIndex: ...

    def graph_of(self, rank: int, step: int) -> int | None:
        """The graph of the step; None if it is not known, or there are several."""
        ...

    async def ask(self, rank: int | None, tensor: TensorName, question: Question) -> AnyAnswer: ...

    async def values(self, rank: int | None, tensor: TensorName) -> Values: ...

    async def file(self, rank: int | None, tensor: TensorName) -> NpyFile: ...

    async def curve(self, rank: int | None, tensor: TensorName) -> StatisticCurve: ...

    async def op_values(
        self, rank: int | None, graph: int | None, step: int | None, statistic: BoxStatistic
    ) -> OpValues:
        """A statistic of the ops of a step that have one; UsageError if the run cannot have it."""
        ...

    async def keep(self, request: KeepRequest) -> None: ...

    async def record(self, request: RecordRequest) -> None: ...

    async def preview(self, rank: int | None, draft: WatchpointDraft) -> Preview:
        """What a watchpoint would have hit in the last step of which statistics are known."""
        ...

    def measure_speed(self) -> None: ...

    async def recheck(self, wait_seconds: float) -> None: ...

    def stop_recheck(self) -> None:
        """Stop the check of a dump; the hits found so far stay."""
        ...

    async def loss(self, rank: int | None, after: int) -> LossCurve: ...

    async def trends(self, rank: int | None) -> TrendSource:
        """The signals and statistics of layers over the steps of a rank."""
        ...

    def need_watchable(self) -> None:
        """UsageError if watchpoints cannot be evaluated any more."""
        ...

    def watchpoints_changed(self) -> None: ...

    def close(self) -> None: ...


def chosen_rank(run: Run, rank: int | None) -> int:
    """``rank``, or the lowest for None; UsageError if there is no such rank."""
    ranks = sorted(each.rank for each in run.view().ranks)
    if rank is None:
        return ranks[0] if ranks else 0
    if rank not in ranks:
        raise UsageError(
            f"run {run.id!r} has no rank {rank}; its ranks are {ranks}", slug="no-such-rank"
        )
    return rank


class Runs:
    """The runs of a server by id, the newest last."""

    def __init__(self) -> None:
        self._runs: dict[str, Run] = {}

    def __iter__(self) -> Iterator[Run]:
        return iter(list(self._runs.values()))

    def __len__(self) -> int:
        return len(self._runs)

    def __contains__(self, run: str) -> bool:
        return run in self._runs

    def add(self, run: Run) -> None:
        self._runs[run.id] = run

    def find(self, run: str) -> Run:
        found = self._runs.get(run)
        if found is None:
            raise UsageError(f"no run {run[:100]!r} on this server", slug="no-such-run")
        return found

    def forget(self, run: str) -> None:
        """Remove a run that ended; UsageError if it is connected."""
        if not self.find(run).may_be_forgotten:
            raise UsageError(f"run {run!r} is still connected", slug="run-connected")
        self._runs.pop(run).close()
