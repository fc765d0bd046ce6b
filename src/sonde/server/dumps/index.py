"""A dump as the server reads it: graphs as wire nodes, tensors by op; large ones from the cache."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Final

import msgspec

from sonde.core.errors import DumpError, UsageError
from sonde.core.graph import GRADIENTS
from sonde.core.keys import Io, TensorKey
from sonde.dump import layout
from sonde.dump.reader import Dump
from sonde.dump.reading.directories import StepDir
from sonde.dump.reading.statistic_rows import StatisticRow
from sonde.dump.reading.step_index import index_op
from sonde.dump.reading.step_listing import Item
from sonde.dump.tensor_record import TensorRecord
from sonde.server.dumps.cache import DumpCache, state_of
from sonde.server.dumps.stored_nodes import wire_nodes
from sonde.server.graph.index import GraphIndex
from sonde.wire.convert import core_node
from sonde.wire.shapes import Node, Phase

WORTH_KEEPING: Final = 500
"""A graph with at least so many nodes, or a step with so many tensors, is cached."""
_MOST_TENSORS: Final = 1_000_000
"""The largest number of tensors of all listings in memory."""

Place = tuple[str, Io, int]


class StoredTensor(msgspec.Struct, frozen=True, array_like=True):
    """A ``TensorRecord`` without the fields that all tensors of a step share."""

    op: str
    op_type: str
    io: Io
    slot: int
    order: int
    timestamp: int
    format: str
    label: str | None
    file: str | None
    row: StatisticRow | None


class StoredGraph(msgspec.Struct, frozen=True, array_like=True):
    name: str
    by_sonde: bool
    nodes: tuple[Node, ...]


class StepTensors:
    """The tensors of one step directory, in execution order; of several runs of an op, the last.
    ``graph``: the graph that has the shapes of the tensors, if the files do not have them."""

    def __init__(
        self, step: StepDir, tensors: Sequence[StoredTensor], graph: GraphIndex | None
    ) -> None:
        self.step = step
        self.tensors = tensors
        self._graph = graph

    @cached_property
    def _places(self) -> Mapping[Place, StoredTensor]:
        return {(each.op, each.io, each.slot): each for each in self.tensors}

    def find(self, op: str, io: Io, slot: int) -> StoredTensor | None:
        return self._places.get((op, io, slot))

    @cached_property
    def _by_op(self) -> Mapping[str, list[StoredTensor]]:
        found: dict[str, list[StoredTensor]] = {}
        for each in self._places.values():
            found.setdefault(each.op, []).append(each)
        return found

    def of_op(self, op: str) -> Sequence[StoredTensor]:
        return self._by_op.get(op, ())

    def record(self, stored: StoredTensor) -> TensorRecord:
        step, graph = self.step, self._graph
        if stored.file is not None and ("/" in stored.file or stored.file in ("", ".", "..")):
            raise DumpError(f"{step.path}: {stored.file!r} is no file name", slug="dump-file")
        node = None
        if graph is not None and stored.op in graph.numbers:
            node = core_node(graph.node(stored.op))
        return TensorRecord(
            TensorKey(step.step, stored.order, stored.op, stored.io, stored.slot),
            step.rank,
            step.net,
            step.graph_id,
            stored.op_type,
            stored.timestamp,
            stored.format,
            stored.label,
            step.path,
            stored.file,
            node,
            stored.row,
            shape_from_graph=graph is not None,
        )


class IndexedDump:
    """Graphs and listings of a dump, a limited number in memory. May be used from any thread."""

    def __init__(self, path: Path) -> None:
        self.dump = Dump(path)
        self._roots = {rank: self.dump.layout(rank) for rank in self.dump.ranks}
        # What msprobe wrote is read from its JSON files, whose state the cache does not know.
        is_cached = self.dump.writer() != "msprobe"
        self._cache = DumpCache(self.dump.path if is_cached else None)
        self._lock = threading.RLock()
        self._graph_lock = threading.RLock()
        self._loading: dict[StepDir, threading.Lock] = {}
        self._unkept: list[Callable[[], None]] = []
        self._graphs: dict[tuple[int, int], tuple[GraphIndex, bool] | None] = {}
        self._listings: OrderedDict[StepDir, StepTensors] = OrderedDict()

    def known_graphs(self, rank: int) -> Iterator[GraphIndex]:
        """The graphs that were loaded already."""
        for (owner, _), found in list(self._graphs.items()):
            if owner == rank and found is not None:
                yield found[0]

    def graph(self, rank: int, graph_id: int) -> GraphIndex | None:
        """None if it cannot be read."""
        found = self._graph(rank, graph_id)
        return None if found is None else found[0]

    def _graph(self, rank: int, graph_id: int) -> tuple[GraphIndex, bool] | None:
        with self._graph_lock:  # Not the lock of listings, which may be held for long.
            key = (rank, graph_id)
            if key not in self._graphs:
                stored = self._load_graph(rank, graph_id)
                self._graphs[key] = None
                if stored is not None:
                    index = GraphIndex(graph_id, stored.name, stored.nodes)
                    self._graphs[key] = (index, stored.by_sonde)
            return self._graphs[key]

    def _load_graph(self, rank: int, graph_id: int) -> StoredGraph | None:
        files = self._roots[rank]
        paths = (files.graph_pb(graph_id), files.graph_ir(graph_id))
        name, key = f"graph-{rank}-{graph_id}", state_of(*paths)
        stored = self._cache.read(name, key, StoredGraph)
        if stored is not None:
            return stored
        try:
            columns = self.dump.columns(graph_id, rank)
        except DumpError:
            return None
        by_sonde = self.dump.writer(rank) == "sonde"
        stored = StoredGraph(columns.name, by_sonde, wire_nodes(columns))
        if len(stored.nodes) >= WORTH_KEEPING:
            self._unkept.append(partial(self._cache.write, name, key, stored, *paths))
        return stored

    def keep(self) -> None:
        """Write new graphs and listings to the cache. Call it when no request is waiting."""
        while self._unkept:
            self._unkept.pop()()

    def listing(self, step: StepDir) -> StepTensors:
        with self._lock:
            lock = self._loading.setdefault(step, threading.Lock())
        with lock:  # One lock per step, so that a request waits only for its own step.
            with self._lock:
                found = self._listings.pop(step, None)
            if found is None:
                found = self._load_listing(step)
            with self._lock:
                self._add_listing(step, found)
        return found

    def _add_listing(self, step: StepDir, listing: StepTensors) -> None:
        self._listings[step] = listing
        total = sum(len(each.tensors) for each in self._listings.values())
        while total > _MOST_TENSORS and len(self._listings) > 2:
            _, dropped = self._listings.popitem(last=False)
            total -= len(dropped.tensors)

    def _load_listing(self, step: StepDir) -> StepTensors:
        graph = self._graph(step.rank, step.graph_id) if step.graph_id is not None else None
        files = self._roots[step.rank]
        paths = [step.path, step.path / layout.STATISTIC, step.path / layout.MAPPING]
        if step.stored is not None:
            paths += step.stored.files()
        if step.graph_id is not None:
            paths.append(files.graph_pb(step.graph_id))
        graph_name = "x" if step.graph_id is None else str(step.graph_id)
        name = f"step-{step.rank}-{step.net}-{graph_name}-{step.step}".replace("/", "_")[:200]
        key = state_of(*paths)
        stored = self._cache.read(name, key, list[StoredTensor])
        if stored is None:
            stored = [_stored(each) for each in self.dump.items(step)]
            if len(stored) >= WORTH_KEEPING:
                self._unkept.append(partial(self._cache.write, name, key, stored, *paths))
        return StepTensors(step, stored, graph[0] if graph is not None and not graph[1] else None)

    def listing_for(self, step: StepDir, op: str) -> StepTensors:
        """A listing with all tensors of ``op``, and maybe no others: the listing of the step if it
        is in memory, else one that is found fast."""
        with self._lock:
            whole = self._listings.get(step)
        if whole is not None or step.graph_id is None:
            return whole or self.listing(step)
        graph = self._graph(step.rank, step.graph_id)
        if graph is None or not graph[1] or op not in graph[0].numbers:
            return self.listing(step)
        node = graph[0].node(op)
        is_alone = _is_alone(node, graph[0].nodes)
        items = index_op(step, node.type, op, node.order) if is_alone else None
        if items is None:
            return self.listing(step)
        return StepTensors(step, [_stored(each, node.type) for each in items], None)

    def steps(self, rank: int, step: int | None = None) -> tuple[StepDir, ...]:
        """The step directories of a rank, or those of one step."""
        return self.dump.step_dirs(rank=rank, step=step)

    def known_steps(self, rank: int, wanted: int | None = None) -> tuple[StepDir, ...]:
        """The step directories of a rank without the captured steps that would have to be executed,
        except ``wanted``, or the last one if nothing else is known."""
        found = self.steps(rank)
        captured = self.dump.captured(rank)
        known = tuple(
            each
            for each in found
            if (place := captured.get((rank, each.step))) is None
            or place.is_computed
            or each.step == wanted
        )
        return known or found[-1:]

    def find(
        self, rank: int, op: str, io: Io, slot: int, step: int | None
    ) -> tuple[StepTensors, StoredTensor]:
        """A tensor of a step, or of the last step that has it; UsageError if none has."""
        for directory in reversed(self.steps(rank, step)):
            listing = self.listing_for(directory, op) if self._may_have(directory, op) else None
            found = None if listing is None else listing.find(op, io, slot)
            if listing is not None and found is not None:
                return listing, found
        when = "" if step is None else f" of step {step}"
        raise UsageError(
            f"the dump has no {io} {slot} of {op}{when} (rank {rank})", slug="no-such-tensor"
        )

    def _may_have(self, directory: StepDir, op: str) -> bool:
        if directory.graph_id is None:
            return True
        graph = self.graph(directory.rank, directory.graph_id)
        return graph is None or op in graph.numbers

    def without_graph(self, rank: int, graph_id: int | None) -> GraphIndex:
        """Nodes without edges, from the names of tensor files, if there is no graph to read."""
        nodes: dict[str, Node] = {}
        for directory in self.steps(rank):
            if directory.graph_id == graph_id:
                for each in self.listing(directory).tensors:
                    nodes.setdefault(each.op, _bare_node(each, len(nodes)))
                break
        return GraphIndex(-1 if graph_id is None else graph_id, "", tuple(nodes.values()))


def _stored(item: Item, op_type: str = "") -> StoredTensor:
    return StoredTensor(
        item.name,
        op_type or item.op_type,
        item.io,
        item.slot,
        item.order,
        item.timestamp,
        item.format,
        item.label,
        item.file,
        item.row,
    )


def _is_alone(node: Node, nodes: Sequence[Node]) -> bool:
    """Whether no other op has the same text in file names. Escaping keeps the length of names."""
    text, size = layout.escape_op(node.type, node.name), len(node.name)
    return not any(
        len(each.name) == size
        and each.name != node.name
        and layout.escape_op(each.type, each.name) == text
        for each in nodes
    )


def _bare_node(tensor: StoredTensor, order: int) -> Node:
    scope = tensor.op.rpartition("/")[0]
    phase: Phase = "backward" if scope.startswith(GRADIENTS) else "forward"
    return Node(tensor.op, tensor.op_type, scope, phase, "op", order)
