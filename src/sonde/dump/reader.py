"""The read side of the format: dumps by Sonde and by MindSpore, no framework needed."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from sonde.core.errors import DumpError
from sonde.core.graph import LEAF_TYPES, Graph, OpNode
from sonde.core.keys import Io
from sonde.core.selection import OpPattern, StepSet
from sonde.dump import layout
from sonde.dump.execution_order import read_node_order, read_steps
from sonde.dump.graph_columns import GraphColumns
from sonde.dump.graph_ir import IrFile, read_ir_file
from sonde.dump.graph_pb import GraphFile, read_columns, read_graph_file
from sonde.dump.record import TensorRecord
from sonde.dump.rows import StatisticRow
from sonde.dump.side_files import Metadata, OverflowEntry, read_json, read_overflow
from sonde.dump.step_index import KnownGraph, StepIndex, index_step
from sonde.dump.step_listing import Item
from sonde.dump.tree import Problem, RankTree, StepDir, find_ranks, scan_rank

_KEPT_STEPS = 4


class Dump:
    """A dump on disk.

    ``path`` is its directory, one of its ``rank_N``, or a directory above one dump. Opening lists
    directories only; graphs, steps and values are read when asked for. What cannot be read is
    listed in ``problems``; only what was asked for by name and is damaged raises DumpError. With
    ``rank=None`` a method speaks of all ranks, or of the first that has what is asked for.

    May be used from several threads.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._ranks = {rank: scan_rank(rank, root) for rank, root in find_ranks(Path(path)).items()}
        self.path = next(iter(self._ranks.values())).layout.root.parent
        self._lock = threading.RLock()
        self._graphs: dict[tuple[int, int], KnownGraph | None] = {}
        self._columns: dict[tuple[int, int], GraphColumns] = {}
        self._indices: OrderedDict[StepDir, StepIndex] = OrderedDict()
        self._problems: dict[Problem, None] = dict.fromkeys(
            problem for tree in self._ranks.values() for problem in tree.problems
        )

    def __repr__(self) -> str:
        return f"Dump({str(self.path)!r})"

    @property
    def ranks(self) -> tuple[int, ...]:
        return tuple(self._ranks)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What was found damaged or foreign so far; ``check`` looks at everything."""
        return tuple(self._problems)

    def check(self) -> tuple[Problem, ...]:
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

    def graphs(self, rank: int | None = None) -> tuple[Graph, ...]:
        """The graphs that can be read, by id; of equal ids the first rank's."""
        found: dict[int, Graph] = {}
        for tree in self._trees(rank):
            for graph_id in tree.graph_ids:
                known = self._known(tree, graph_id)
                if known is not None:
                    found.setdefault(graph_id, known.file.graph)
        return tuple(graph for _, graph in sorted(found.items()))

    def graph(self, graph_id: int, rank: int | None = None) -> Graph:
        """The graph with this id; DumpError if there is none or it is damaged."""
        for tree in self._trees(rank):
            if graph_id in tree.graph_ids:
                known = self._known(tree, graph_id)
                return (known.file if known else self._load(tree, graph_id)).graph
        raise DumpError(
            f"{self.path}: there is no graph {graph_id}; there are {list(self.graph_ids(rank))}",
            slug="no-such-graph",
        )

    def columns(self, graph_id: int, rank: int | None = None) -> GraphColumns:
        """What ``graph`` gives, as columns; for large graphs by Sonde much faster."""
        for tree in self._trees(rank):
            key = (tree.rank, graph_id)
            if graph_id in tree.graph_ids and key not in self._graphs:
                found = read_columns(tree.layout.graph_pb(graph_id))
                if found is not None:
                    self._columns[key] = found
                    return found
                break
        return GraphColumns.of(self.graph(graph_id, rank))

    def writer(self, rank: int | None = None) -> Literal["sonde", "mindspore"] | None:
        """Who made the dump; None if neither its metadata nor a graph tells."""
        config = self.metadata(rank).config
        if "sonde_version" in config:
            return "sonde"
        if "ms_version" in config:
            return "mindspore"
        for tree in self._trees(rank):
            for graph_id in tree.graph_ids:
                if (known := self._known(tree, graph_id)) is not None:
                    return known.file.writer
        return None

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

        ``op`` is an entry of ``kernels``: a full name, a part of an op type, ``name-regex(...)``.
        """
        pattern = OpPattern.parse(op) if isinstance(op, str) else op
        for directory in self.step_dirs(step=step, graph_id=graph_id, rank=rank):
            yield from self._index(directory).records(pattern=pattern, io=io)

    def items(self, directory: StepDir) -> Sequence[Item]:
        """What ``tensors`` makes records of, for one directory; many, and cheaper."""
        return self._index(directory).items

    def op_types(
        self,
        *,
        step: int | StepSet | None = None,
        rank: int | None = None,
        graph_id: int | None = None,
    ) -> dict[str, str]:
        """Full name and type of every op that has tensors here, in execution order."""
        return {
            item.name: item.op_type
            for directory in self.step_dirs(step=step, graph_id=graph_id, rank=rank)
            for item in self._index(directory).items
        }

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

    def executed_steps(self, graph_id: int, rank: int | None = None) -> tuple[int, ...]:
        """The steps a graph ran in, as its csv file says; () without one."""
        for tree in self._trees(rank):
            text = self._text(tree.layout.global_order_csv(graph_id))
            if text is not None:
                return read_steps(text)
        return ()

    def metadata(self, rank: int | None = None) -> Metadata:
        """Who made the dump and how; empty where it is not told."""
        tree = self._trees(rank)[0]
        return Metadata(
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

    def _add_problem(self, path: Path, error: DumpError) -> None:
        message = error.message.removeprefix(f"{path}: ")
        with self._lock:
            self._problems[Problem(path, message)] = None

    def _index(self, directory: StepDir) -> StepIndex:
        with self._lock:
            index = self._indices.pop(directory, None)
        if index is None:  # Not under the lock: another step may be wanted sooner.
            index = index_step(directory, self._graphs_of(directory))
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
        known = (self._known(tree, graph_id) for graph_id in ids)
        return [graph for graph in known if graph is not None]

    def _known(self, tree: RankTree, graph_id: int) -> KnownGraph | None:
        key = (tree.rank, graph_id)
        with self._lock:
            if key not in self._graphs:
                try:
                    self._graphs[key] = KnownGraph.of(self._load(tree, graph_id))
                except DumpError as error:
                    self._add_problem(tree.layout.graph_pb(graph_id), error)
                    self._graphs[key] = None
            return self._graphs[key]

    def _load(self, tree: RankTree, graph_id: int) -> GraphFile:
        columns = self._columns.pop((tree.rank, graph_id), None)
        if columns is not None:
            return GraphFile(columns.graph(), "sonde")
        file = read_graph_file(tree.layout.graph_pb(graph_id), graph_id)
        path = tree.layout.graph_ir(graph_id)
        if file.writer == "sonde" or not path.is_file():
            return file
        try:
            return replace(file, graph=_with_ir(file.graph, read_ir_file(path)))
        except DumpError as error:
            self._add_problem(path, error)
            return file

    def _text(self, path: Path) -> str | None:
        try:
            return path.read_text("utf-8", "replace") if path.is_file() else None
        except OSError as error:
            self._add_problem(path, DumpError(f"cannot be read: {error}", slug="dump-file"))
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


def _with_ir(graph: Graph, ir: IrFile) -> Graph:
    """A graph by MindSpore with what only its ``.ir`` knows."""
    nodes: list[OpNode] = []
    for node in graph:
        if node.kind == "parameter" and node.name in ir.inputs:
            node = replace(node, kind="input", type=LEAF_TYPES["input"])
        if sources := ir.sources.get(node.name):
            node = replace(node, sources=sources)
        nodes.append(node)
    return Graph(graph.id, graph.name, tuple(nodes))


def _is_in(step: int, wanted: int | StepSet | None) -> bool:
    if wanted is None:
        return True
    return step == wanted if isinstance(wanted, int) else step in wanted
