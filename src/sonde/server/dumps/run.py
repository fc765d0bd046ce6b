"""A dump on disk as a run: the same page, without a training."""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from sonde.core.errors import SondeError, UsageError
from sonde.debugger.values import answers
from sonde.debugger.values.answers import Values
from sonde.dump.reader import Dump
from sonde.server.comparison.background import BackgroundComparison
from sonde.server.dumps.answers import op_tensors, statistic_curve
from sonde.server.dumps.background_check import BackgroundCheck
from sonde.server.dumps.check import is_leaf
from sonde.server.dumps.index import IndexedDump
from sonde.server.dumps.values import DumpTensor, need_values
from sonde.server.graph.index import GraphIndex
from sonde.server.hit_store import HitStore
from sonde.server.http.events import Changes, EventBroker
from sonde.server.run import NpyFile, Question
from sonde.server.watchpoint_set import WatchpointSet
from sonde.wire.api import (
    ControlRequest,
    GraphInfo,
    KeepRequest,
    LossCurve,
    RankView,
    RunView,
    StatisticCurve,
)
from sonde.wire.questions import AnyAnswer, AskCompare, AskOp
from sonde.wire.shapes import Hit, Metadata, TensorName

_MOST_PREPARED: Final = 500_000
_FIRST_SCREEN_SECONDS: Final = 0.5
"""The graph is there, and the page asks for it now: what it asks for later can wait."""


class DumpRun:
    """One dump. Files are read in threads; everything else happens in the event loop's thread."""

    def __init__(self, run: str, path: Path, broker: EventBroker) -> None:
        self.id = run
        self._changes = Changes(run, broker)
        self._shelf = IndexedDump(path)
        self.watchpoints = WatchpointSet()
        self.hits = HitStore(self._is_leaf)
        self._check: BackgroundCheck | None = None
        self._bare: dict[tuple[int, int | None], GraphIndex] = {}
        self._closed = threading.Event()
        self._preparing: asyncio.Future[None] | None = None
        self._facts: dict[int, Metadata] = {}
        self._usual: dict[int, int] = {}
        self._ran: dict[int, dict[int, int | None]] = {}
        self.peer: str | None = None
        self.comparison: BackgroundComparison | None = None

    @property
    def dump(self) -> Dump:
        return self._shelf.dump

    @property
    def may_be_forgotten(self) -> bool:
        return False

    def view(self) -> RunView:
        dump = self._shelf.dump
        return RunView(
            id=self.id,
            kind="dump",
            title=str(dump.path),
            revision=self._changes.revision,
            ranks=tuple(self._rank_view(rank) for rank in dump.ranks),
            watchpoints=self.watchpoints.all,
            controls=(),
            notices=self._notices(),
            peer=self.peer,
            recheck=None if self._check is None else self._check.view(len(self.hits)),
        )

    def _notices(self) -> tuple[str, ...]:
        problems = [str(problem) for problem in self._shelf.dump.problems[:200]]
        failed = self._check.failure if self._check is not None else ""
        return (*problems, *([failed] if failed else []))

    def _rank_view(self, rank: int) -> RankView:
        steps = self._shelf.steps(rank)
        known = {index.graph: len(index) for index in self._shelf.known_graphs(rank)}
        return RankView(
            rank=rank,
            state="ended",
            step=steps[-1].step if steps else 0,
            graph=self._usual_graph(rank),
            op=None,
            order=None,
            reason=None,
            message="a dump on disk",
            hits=self.hits.count(rank),
            graphs=tuple(
                GraphInfo(number, f"graph {number}", known.get(number, 0), True)
                for number in self._graph_ids(rank)
            ),
            steps=tuple(dict.fromkeys(each.step for each in steps)),
            metadata=self._metadata(rank),
            seconds=None,
            bare_seconds=None,
        )

    def _metadata(self, rank: int) -> Metadata:
        if rank not in self._facts:
            self._facts[rank] = self._read_metadata(rank)
        return self._facts[rank]

    def _read_metadata(self, rank: int) -> Metadata:
        facts = {name: str(value) for name, value in self._shelf.dump.metadata(rank).config.items()}
        return Metadata(
            host="",
            pid=0,
            rank=rank,
            world_size=len(self._shelf.dump.ranks),
            device=facts.pop("device_target", ""),
            framework=facts.pop("framework", "mindspore" if "ms_version" in facts else ""),
            framework_version=facts.pop("framework_version", facts.pop("ms_version", "")),
            sonde_version=facts.pop("sonde_version", ""),
            python_version="",
            script=", ".join(self._shelf.dump.nets(rank)),
            arguments=(),
            working_directory=str(self._shelf.dump.path),
            started=0.0,
            extra=facts,
        )

    def _graph_ids(self, rank: int) -> tuple[int, ...]:
        return self._shelf.graph_ids(rank) or (-1,)

    def _usual_graph(self, rank: int) -> int:
        """The one most steps have."""
        if rank not in self._usual:
            steps = Counter(each.graph_id for each in self._shelf.steps(rank))
            ids = self._graph_ids(rank)
            self._usual[rank] = max(ids, key=lambda each: (steps[each], each))
        return self._usual[rank]

    def _rank(self, rank: int | None) -> int:
        ranks = self._shelf.dump.ranks
        if rank is None:
            return ranks[0]
        if rank not in ranks:
            raise UsageError(
                f"the dump has no rank {rank}; it has {list(ranks)}", slug="no-such-rank"
            )
        return rank

    async def graph(self, rank: int | None, graph: int | None) -> GraphIndex:
        number = self._rank(rank)
        wanted = self._usual_graph(number) if graph is None else graph
        if wanted not in self._graph_ids(number):
            raise UsageError(
                f"the dump has no graph {wanted}; it has {list(self._graph_ids(number))}",
                slug="no-such-graph",
            )
        return await asyncio.to_thread(self._load, number, wanted)

    def graph_of(self, rank: int, step: int) -> int | None:
        if rank not in self._ran:
            ran: dict[int, set[int | None]] = {}
            for each in self._shelf.steps(rank):
                ran.setdefault(each.step, set()).add(each.graph_id)
            self._ran[rank] = {
                number: next(iter(graphs)) for number, graphs in ran.items() if len(graphs) == 1
            }
        return self._ran[rank].get(step)

    def _load(self, rank: int, graph: int) -> GraphIndex:
        found = self._shelf.graph(rank, graph) if graph >= 0 else None
        if found is not None:
            return found
        key = (rank, graph if graph >= 0 else None)
        if key not in self._bare:
            self._bare[key] = self._shelf.without_graph(*key)
        return self._bare[key]

    def _tensor(self, rank: int | None, name: TensorName) -> DumpTensor:
        return DumpTensor(
            *self._shelf.find(self._rank(rank), name.op, name.io, name.slot, name.step)
        )

    async def ask(self, rank: int | None, tensor: TensorName, question: Question) -> AnyAnswer:
        if isinstance(question, AskOp):
            return await asyncio.to_thread(op_tensors, self._shelf, self._rank(rank), tensor)
        values = await self.values(rank, tensor)
        other = None
        if isinstance(question, AskCompare):
            other = await self.values(rank, question.other)
        return await asyncio.to_thread(answers.answer, question, values, other)

    async def values(self, rank: int | None, tensor: TensorName) -> Values:
        return await asyncio.to_thread(self._values, rank, tensor)

    def _values(self, rank: int | None, tensor: TensorName) -> Values:
        found = self._tensor(rank, tensor)
        need_values(found)
        return found.values()

    async def file(self, rank: int | None, tensor: TensorName) -> NpyFile:
        values = await self.values(rank, tensor)
        header = next(answers.npy_chunks(values))
        return NpyFile(len(header) + values.array.nbytes, answers.npy_chunks(values))

    async def curve(self, rank: int | None, tensor: TensorName) -> StatisticCurve:
        return await asyncio.to_thread(statistic_curve, self._shelf, self._rank(rank), tensor)

    async def control(self, request: ControlRequest) -> None:
        raise UsageError(
            "this is a dump on disk, no training that could be controlled", slug="not-live"
        )

    async def keep(self, request: KeepRequest) -> None:
        raise UsageError("a dump keeps what it has", slug="not-live")

    async def recheck(self, wait_seconds: float) -> None:
        """Start over with the watchpoints as they are now."""
        waiting = self.start_check()
        if wait_seconds > 0:
            await asyncio.wait({waiting}, timeout=min(wait_seconds, 3600.0))
        await asyncio.sleep(0)  # What the thread sent last is taken first.

    def start_check(self) -> asyncio.Future[None]:
        """Check the watchpoints from the beginning; done when the check is."""
        if self._check is not None:
            self._check.stop()
        self.hits.clear()
        check = self._check = BackgroundCheck(self._shelf, self.watchpoints.all, self.take)
        self._changes.touch("hits", "status")
        return asyncio.ensure_future(asyncio.to_thread(check.run))

    def prepare(self) -> None:
        """Look through the dump in the background, so that the first questions find it listed."""
        self._preparing = asyncio.ensure_future(asyncio.to_thread(self._prepare))

    def _prepare(self) -> None:
        with contextlib.suppress(SondeError, OSError):  # Who asks for it is told.
            self._look_through()
        self._shelf.keep()

    def _look_through(self) -> None:
        seen = 0
        for rank in self._shelf.dump.ranks:
            self._load(rank, self._usual_graph(rank))
        self._closed.wait(_FIRST_SCREEN_SECONDS)
        for rank in self._shelf.dump.ranks:
            for directory in reversed(self._shelf.steps(rank)):
                if self._closed.is_set() or seen > _MOST_PREPARED:
                    return
                seen += len(self._shelf.listing(directory).tensors)

    def take(self, check: BackgroundCheck, hits: Sequence[Hit]) -> None:
        """A check found something, or went on."""
        if check is self._check:
            self.hits.add(hits)
            self._changes.touch("hits", "status")

    def watchpoints_changed(self) -> None:
        self._changes.touch("watchpoints")

    def loss(self, rank: int | None, after: int) -> LossCurve:
        return LossCurve(self._rank(rank), ())

    def close(self) -> None:
        self._closed.set()
        if self._check is not None:
            self._check.stop()
        if self.comparison is not None:
            self.comparison.stop()

    async def prepared(self) -> None:
        """Wait until what ``prepare`` began is done."""
        if self._preparing is not None:
            await self._preparing

    def comparison_changed(self) -> None:
        self._changes.touch("status")

    def _is_leaf(self, hit: Hit) -> bool:
        return is_leaf(self._shelf, hit)


def open_dumps(paths: Sequence[Path], broker: EventBroker) -> list[DumpRun]:
    """A run for each dump; two are each other's peer. DumpError if one is no dump."""
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
