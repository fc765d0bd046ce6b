"""The read side of the format: dumps by Sonde, MindSpore and msprobe, no framework needed."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from sonde.core.coverage import CHOSEN
from sonde.core.errors import DumpError
from sonde.core.finding import Finding
from sonde.core.graph import Graph, OpNode
from sonde.core.keys import Io
from sonde.core.operators.patterns import NamedOp, OpPattern
from sonde.core.selection import StepSet
from sonde.dump import layout
from sonde.dump.bounded_file import read_bytes
from sonde.dump.dump_html import dump_html
from sonde.dump.graph_files.columns import GraphColumns
from sonde.dump.graph_files.execution_order import read_node_order
from sonde.dump.graph_files.pb import GraphWriter
from sonde.dump.layout import RankLayout
from sonde.dump.reading.captured_rank import CapturedPlace, CapturedRank
from sonde.dump.reading.directories import DumpProblem, RankTree, StepDir
from sonde.dump.reading.graph_store import GraphStore
from sonde.dump.reading.scan import scan
from sonde.dump.reading.side_files import (
    DumpMetadata,
    OverflowEntry,
    OverflowVerdict,
    StoredDiagnosis,
    read_findings,
    read_gaps,
    read_json,
    read_overflow,
    read_verdict,
)
from sonde.dump.reading.statistic_rows import StatisticRow
from sonde.dump.reading.step_index import KnownGraph, StepIndex, index_step
from sonde.dump.reading.step_listing import MAX_TEXT_BYTES, Item
from sonde.dump.tensor_record import TensorRecord

_KEPT_STEPS = 4
GRAPHS_ONLY = "the dump has graphs only"


class Dump:
    """A dump on disk.

    ``path`` is its directory, one of its ``rank_N``, or a directory above one dump. Opening lists
    directories only; graphs, steps and values are read on demand. Files that cannot be
    read are listed in ``problems``; only one that was requested by name raises DumpError. With
    ``rank=None`` a method covers all ranks, or the first one that has the requested part.

    May be used from several threads.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path, self._ranks = scan(Path(path))
        self._lock = threading.RLock()
        self._graphs = GraphStore(self._add_problem)
        self._indices: OrderedDict[StepDir, StepIndex] = OrderedDict()
        self._problems: dict[DumpProblem, None] = dict.fromkeys(
            problem for tree in self._ranks.values() for problem in tree.problems
        )
        for tree in self._ranks.values():
            self._add_gaps(tree.layout.observation)

    def __repr__(self) -> str:
        return f"Dump({str(self.path)!r})"

    def _repr_html_(self) -> str:
        """The dump in a notebook: its steps, what was found, and what cannot be read."""
        return dump_html(self)

    @property
    def ranks(self) -> tuple[int, ...]:
        return tuple(self._ranks)

    def layout(self, rank: int) -> RankLayout:
        """The paths of the graph and side files of a rank."""
        return self._trees(rank)[0].layout

    @property
    def problems(self) -> tuple[DumpProblem, ...]:
        """Damaged or foreign files found so far; ``check`` reads everything."""
        return tuple(self._problems)

    def check(self) -> tuple[DumpProblem, ...]:
        """Read every graph and the header of every tensor; all problems."""
        self.graphs()
        for record in self.tensors():
            if (path := record.path) is not None:
                try:
                    _ = record.header
                except DumpError as error:
                    self._add_problem(path, error)
        return self.problems

    def nets(self, rank: int | None = None) -> tuple[str, ...]:
        return tuple(dict.fromkeys(net for tree in self._trees(rank) for net in tree.nets))

    def graph_ids(self, rank: int | None = None) -> tuple[int, ...]:
        return tuple(sorted({each for tree in self._trees(rank) for each in tree.graph_ids}))

    def graphs(self, rank: int | None = None, *, step: int | None = None) -> tuple[Graph, ...]:
        """The graphs that can be read, by id; of equal ids the first rank's. With ``step``: those
        of this step."""
        found: dict[int, Graph] = {}
        for tree in self._trees(rank):
            for graph_id in tree.graph_ids if step is None else _graphs_of(tree, step):
                known = self._graphs.known(tree, graph_id)
                if known is not None:
                    found.setdefault(graph_id, known.file.graph)
        return tuple(graph for _, graph in sorted(found.items()))

    def graph(self, graph_id: int, rank: int | None = None) -> Graph:
        """The graph with this id; DumpError if it is missing or damaged."""
        for tree in self._trees(rank):
            if graph_id in tree.graph_ids:
                known = self._graphs.known(tree, graph_id)
                return (known.file if known else self._graphs.load(tree, graph_id)).graph
        raise DumpError(
            f"{self.path}: there is no graph {graph_id}; there are {list(self.graph_ids(rank))}",
            slug="no-such-graph",
        )

    def columns(self, graph_id: int, rank: int | None = None) -> GraphColumns:
        """The contents of ``graph`` as columns; much faster for large graphs by Sonde."""
        tree = next((tree for tree in self._trees(rank) if graph_id in tree.graph_ids), None)
        found = None if tree is None else self._graphs.columns(tree, graph_id)
        return found or GraphColumns.of(self.graph(graph_id, rank))

    def writer(self, rank: int | None = None) -> GraphWriter | None:
        """The program that made the dump; None if neither metadata nor graphs tell."""
        config = self.metadata(rank).config
        source = self._trees(rank)[0].source
        if source is not None:
            return source.writer
        if "sonde_version" in config:
            return "sonde"
        if "ms_version" in config:
            return "mindspore"
        for tree in self._trees(rank):
            for graph_id in tree.graph_ids:
                if (known := self._graphs.known(tree, graph_id)) is not None:
                    return known.file.writer
        return None

    def captured(self, rank: int | None = None) -> dict[tuple[int, int], CapturedPlace]:
        """The captured steps, by rank and step, whose tensors are computed when they are read."""
        return {
            (tree.rank, step): CapturedPlace(path, tree.source.is_computed(step))
            for tree in self._trees(rank)
            if isinstance(tree.source, CapturedRank)
            for step, path in sorted(tree.source.places.items())
        }

    def step_dirs(
        self,
        *,
        step: int | StepSet | None = None,
        graph_id: int | None = None,
        rank: int | None = None,
    ) -> tuple[StepDir, ...]:
        """The directories of steps, by rank, then step, then graph."""
        return tuple(
            each
            for tree in self._trees(rank)
            for each in tree.steps
            if _is_in(each.step, step) and graph_id in (None, each.graph_id)
        )

    def steps(self, *, graph_id: int | None = None, rank: int | None = None) -> tuple[int, ...]:
        """The steps that were dumped, of one graph or of all."""
        found = self.step_dirs(graph_id=graph_id, rank=rank)
        return tuple(sorted({each.step for each in found}))

    def why_no_values(self, rank: int | None = None) -> str:
        """Why there are no values of a step here; empty if there are, or if the run was searched
        for NaN and Inf and had none."""
        trees = self._trees(rank)
        if any(tree.steps for tree in trees):
            return ""
        for tree in trees:
            if unread := [each for each in tree.problems if each.path == tree.layout.statistics]:
                return unread[0].message
        if any(tree.graph_ids for tree in trees):
            return GRAPHS_ONLY
        return "" if self.verdicts(rank) else "the dump has no steps"

    def verdicts(self, rank: int | None = None) -> dict[int, str]:
        """The verdict on the run of each rank that was searched for NaN and Inf."""
        found = {
            tree.rank: self._json(tree.layout.root / layout.OVERFLOW) for tree in self._trees(rank)
        }
        return {each: str(text["verdict"]) for each, text in found.items() if "verdict" in text}

    def tensors(
        self,
        *,
        step: int | StepSet | None = None,
        op: str | OpPattern | None = None,
        io: Io | None = None,
        rank: int | None = None,
        graph_id: int | None = None,
    ) -> Iterator[TensorRecord]:
        """The tensors selected, rank by rank, step by step, in execution order.

        ``op`` is a pattern, see ``core.operators.patterns``. A captured step is executed; DumpError
        if it cannot be.
        """
        pattern = OpPattern.parse(op) if isinstance(op, str) else op
        for directory in self.step_dirs(step=step, graph_id=graph_id, rank=rank):
            yield from self._index(directory).records(pattern=pattern, io=io)

    def items(self, directory: StepDir) -> Sequence[Item]:
        """The items of one directory, from which ``tensors`` makes records; cheaper for many."""
        return self._index(directory).items

    def named_ops(
        self,
        *,
        step: int | StepSet | None = None,
        rank: int | None = None,
        graph_id: int | None = None,
    ) -> tuple[NamedOp, ...]:
        """Every op and leaf that has tensors here, in execution order."""
        found = {
            item.name: item.named
            for directory in self.step_dirs(step=step, graph_id=graph_id, rank=rank)
            for item in self._index(directory).items
        }
        return tuple(found.values())

    def constants(
        self, graph_id: int | None = None, rank: int | None = None
    ) -> Iterator[TensorRecord]:
        """The constants of graphs; their step is -1."""
        for tree in self._trees(rank):
            for directory in tree.constants:
                if graph_id in (None, directory.graph_id):
                    yield from self._index(directory).records()

    def statistics(
        self, step: int | StepSet | None = None, rank: int | None = None
    ) -> tuple[StatisticRow, ...]:
        """The rows of ``statistic.csv``, in execution order."""
        records = self.tensors(step=step, rank=rank)
        return tuple(record.row for record in records if record.row is not None)

    def overflow(
        self, step: int | StepSet | None = None, rank: int | None = None
    ) -> Iterator[tuple[StepDir, tuple[OverflowEntry, ...]]]:
        """The ``overflow.json`` of each step that has one; a damaged one is a problem."""
        for directory in self.step_dirs(step=step, rank=rank):
            path = directory.path / layout.OVERFLOW
            if path.is_file():
                try:
                    yield directory, read_overflow(path)
                except DumpError as error:
                    self._add_problem(path, error)

    def verdict(self, rank: int) -> OverflowVerdict | None:
        """The verdict of an overflow dump on a rank; None without one. A damaged one is a
        problem."""
        path = self.layout(rank).overflow
        if not path.is_file():
            return None
        try:
            return read_verdict(path)
        except DumpError as error:
            self._add_problem(path, error)
            return None

    def diagnosis(self, rank: int) -> StoredDiagnosis | None:
        """What a diagnosis of the training found, if it was diagnosed. A damaged file is a
        problem."""
        path = self.layout(rank).findings
        if not path.is_file():
            return None
        try:
            return read_findings(path)
        except DumpError as error:
            self._add_problem(path, error)
            return None

    def findings(self, rank: int | None = None) -> tuple[Finding, ...]:
        """What was found in the run: the first NaN or Inf of each rank, if it was searched for
        them, and what a diagnosis found. What both found is listed once."""
        found: list[Finding] = []
        for tree in self._trees(rank):
            verdict, diagnosis = self.verdict(tree.rank), self.diagnosis(tree.rank)
            number = tree.rank if len(self._ranks) > 1 else None
            origin = None if verdict is None else verdict.finding(number)
            listed = () if diagnosis is None else diagnosis.findings
            if verdict is not None and origin is not None:
                found.append(origin)
                listed = tuple(each for each in listed if not verdict.is_told_by(each))
            found += listed
        return tuple(found)

    def arguments(self, op: OpNode, step: int, rank: int | None = None) -> dict[str, Any] | None:
        """The arguments saved for an op in a step (``save_kernel_args``), or None."""
        name = layout.escape_op(op.type, op.name)
        for directory in self.step_dirs(step=step, rank=rank):
            path = self._index(directory).arguments.get(name)
            if path is not None and isinstance(found := read_json(path), dict):
                return found
        return None

    def execution_order(self, graph_id: int, rank: int | None = None) -> tuple[str, ...]:
        """The ops of a graph by full name, from its csv file, or from the graph without one.

        MindSpore's is the order of its schedule, not of the run; the order of ``tensors`` is.
        """
        for tree in self._trees(rank):
            text = self._text(tree.layout.order_csv(graph_id))
            if text is not None:
                return read_node_order(text)
        return tuple(op.name for op in self.graph(graph_id, rank).ops)

    def metadata(self, rank: int | None = None) -> DumpMetadata:
        """The program and configuration that made the dump; empty where unknown."""
        tree = self._trees(rank)[0]
        if tree.source is not None:
            is_foreign = tree.source.writer != "sonde"
            dumped = {} if is_foreign else self._json(tree.layout.metadata_dump_config)
            return DumpMetadata(tree.source.config, dumped)
        return DumpMetadata(
            self._json(tree.layout.metadata_config), self._json(tree.layout.metadata_dump_config)
        )

    def _trees(self, rank: int | None) -> list[RankTree]:
        if rank is None:
            return list(self._ranks.values())
        if rank not in self._ranks:
            raise DumpError(
                f"{self.path}: there is no rank {rank}; there are {list(self._ranks)}",
                slug="no-such-rank",
            )
        return [self._ranks[rank]]

    def _add_gaps(self, path: Path) -> None:
        """List what was not observed of a run, other than by choice of the user."""
        try:
            gaps = [gap for gap in read_gaps(path) if gap.reason not in CHOSEN]
        except DumpError as error:
            self._add_problem(path, error)
        else:
            for gap in gaps:
                self._problems[DumpProblem(path, str(gap), is_gap=True)] = None

    def _add_problem(self, path: Path, error: DumpError) -> None:
        with self._lock:
            self._problems[DumpProblem.of(path, error)] = None

    def _index(self, directory: StepDir) -> StepIndex:
        with self._lock:
            index = self._indices.pop(directory, None)
        if index is None:  # Not under the lock, so that other threads can read other steps.
            source = self._ranks[directory.rank].source
            if isinstance(source, CapturedRank):
                source.compute(directory.step)
            index = index_step(directory, self._graphs_of(directory), source)
        with self._lock:
            self._problems.update(dict.fromkeys(index.problems))
            self._indices[directory] = index
            self._indices.move_to_end(directory)
            while len(self._indices) > _KEPT_STEPS:
                self._indices.popitem(last=False)
        return index

    def _graphs_of(self, directory: StepDir) -> list[KnownGraph]:
        tree = self._ranks[directory.rank]
        ids = tree.graph_ids if directory.graph_id is None else (directory.graph_id,)
        known = (self._graphs.known(tree, graph_id) for graph_id in ids)
        return [graph for graph in known if graph is not None]

    def _text(self, path: Path) -> str | None:
        if not path.is_file():
            return None
        try:
            return read_bytes(path, MAX_TEXT_BYTES, slug="dump-file").decode("utf-8", "replace")
        except DumpError as error:
            self._add_problem(path, error)
            return None

    def _json(self, path: Path) -> dict[str, Any]:
        if not path.is_file():
            return {}
        try:
            found = read_json(path)
        except DumpError as error:
            self._add_problem(path, error)
            return {}
        return found if isinstance(found, dict) else {}


def _is_in(step: int, wanted: int | StepSet | None) -> bool:
    if wanted is None:
        return True
    return step == wanted if isinstance(wanted, int) else step in wanted


def _graphs_of(tree: RankTree, step: int) -> list[int]:
    """The ids of the graphs that a rank has run in a step."""
    ids = {each.graph_id for each in tree.steps if each.step == step}
    return [graph_id for graph_id in tree.graph_ids if graph_id in ids]
