"""What the routes speak to: one run, live or a dump on disk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from sonde.core.errors import UsageError
from sonde.debugger.answers import Values
from sonde.server.graph_index import GraphIndex
from sonde.server.hit_book import HitBook
from sonde.server.watchpoint_set import WatchpointSet
from sonde.wire.api import (
    ControlRequest,
    KeepRequest,
    LossCurve,
    RunView,
    StatisticCurve,
)
from sonde.wire.questions import (
    AnyAnswer,
    AskCompare,
    AskHeat,
    AskOp,
    AskSummary,
    AskTable,
)
from sonde.wire.shapes import TensorName

Question = AskSummary | AskTable | AskHeat | AskCompare | AskOp


@dataclass(frozen=True, slots=True, eq=False)
class NpyFile:
    """The bytes of an ``.npy`` file, ``size`` of them, in pieces."""

    size: int
    chunks: Iterator[bytes]


class RunSource(Protocol):
    """One run. ``rank`` None is the lowest there is, ``graph`` None the one that runs, or ran last.

    Everything that is asked for and is not there raises UsageError. All is called in the thread of
    the server's event loop.
    """

    @property
    def id(self) -> str: ...

    @property
    def watchpoints(self) -> WatchpointSet: ...

    @property
    def hits(self) -> HitBook: ...

    @property
    def may_be_forgotten(self) -> bool: ...

    def view(self) -> RunView: ...

    async def control(self, request: ControlRequest) -> None: ...

    async def graph(self, rank: int | None, graph: int | None) -> GraphIndex: ...

    def graph_of(self, rank: int, step: int) -> int | None:
        """The one graph that ran in the step; None if it is not known, or there were several."""
        ...

    async def ask(self, rank: int | None, tensor: TensorName, question: Question) -> AnyAnswer: ...

    async def values(self, rank: int | None, tensor: TensorName) -> Values: ...

    async def file(self, rank: int | None, tensor: TensorName) -> NpyFile: ...

    async def curve(self, rank: int | None, tensor: TensorName) -> StatisticCurve: ...

    async def keep(self, request: KeepRequest) -> None: ...

    async def recheck(self, wait_seconds: float) -> None: ...

    def loss(self, rank: int | None, after: int) -> LossCurve: ...

    def watchpoints_changed(self) -> None: ...

    def close(self) -> None: ...


def chosen_rank(run: RunSource, rank: int | None) -> int:
    """The number of the rank that is meant, None: the lowest; UsageError if there is none such."""
    ranks = sorted(each.rank for each in run.view().ranks)
    if rank is None:
        return ranks[0] if ranks else 0
    if rank not in ranks:
        raise UsageError(f"run {run.id!r} has no rank {rank}; it has {ranks}", slug="no-such-rank")
    return rank


class Runs:
    """The runs a server knows, by id, the newest last."""

    def __init__(self) -> None:
        self._runs: dict[str, RunSource] = {}

    def __iter__(self) -> Iterator[RunSource]:
        return iter(list(self._runs.values()))

    def __len__(self) -> int:
        return len(self._runs)

    def __contains__(self, run: str) -> bool:
        return run in self._runs

    def add(self, run: RunSource) -> None:
        self._runs[run.id] = run

    def find(self, run: str) -> RunSource:
        found = self._runs.get(run)
        if found is None:
            raise UsageError(f"there is no run {run[:100]!r} on this server", slug="no-such-run")
        return found

    def forget(self, run: str) -> None:
        """Drop a run that ended."""
        if not self.find(run).may_be_forgotten:
            raise UsageError(f"run {run!r} is still connected", slug="run-connected")
        self._runs.pop(run).close()
