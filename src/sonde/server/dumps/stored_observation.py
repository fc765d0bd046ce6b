"""Traces NaN and Inf through the steps of a dump: its ops as ``core.observation`` has them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import msgspec

from sonde.core.graph import Edge, OpNode, TensorSpec
from sonde.core.keys import Io
from sonde.server.dumps.index import StepTensors
from sonde.server.dumps.stored_facts import stored_facts
from sonde.server.dumps.values import DumpTensor
from sonde.server.graph.index import GraphIndex
from sonde.watch.explanations import OpFacts
from sonde.watch.faults import find_used
from sonde.watch.origins import OriginTracker
from sonde.wire.convert import core_node
from sonde.wire.shapes import Node

Place = tuple[str, int]


class BadOutput(msgspec.Struct, frozen=True, array_like=True):
    """An output with NaN or Inf. ``fingerprint`` is equal for equal values."""

    op: str
    slot: int
    order: int
    has_nan: bool
    fingerprint: str


class _Memory:
    """The identity of a piece of memory, in all steps that use it."""

    __slots__ = ("__weakref__",)


@dataclass(frozen=True, slots=True, eq=False)
class StoredTensorView:
    """See ``core.observation.ObservedTensor``."""

    io: Io
    slot: int
    is_bad: bool
    is_nan: bool
    memory: object = None
    is_filled: bool = True
    values_token: object = None

    def non_finite(self) -> int:
        return int(self.is_bad)

    def has_nan(self) -> bool:
        return self.is_nan


@dataclass(frozen=True, slots=True, eq=False)
class StoredOp:
    """See ``core.observation.Observation``."""

    node: OpNode
    step: int
    order: int
    inputs: Sequence[StoredTensorView]
    outputs: Sequence[StoredTensorView]

    @property
    def attributes(self) -> tuple[tuple[str, str], ...]:
        return self.node.attributes


class RankOrigins:
    """The origins of NaN and Inf of a rank, whose steps are added in order."""

    def __init__(self) -> None:
        self.tracker = OriginTracker(facts=self._facts)
        self._listing: StepTensors | None = None
        # Memory that had NaN or Inf at the end of the previous step, by leaf and by values.
        self._of_leaves: dict[str, _Memory] = {}
        self._by_fingerprint: dict[str, _Memory] = {}
        # Memory of ops of the previous step that no op of that step used, by values.
        self._results: dict[str, set[_Memory]] = {}
        # The last values of data with NaN or Inf.
        self._inputs: dict[str, str] = {}
        # The tracker has only weak references to memory.
        self._alive: list[_Memory] = []

    def take(self, listing: StepTensors, graph: GraphIndex, bad: Sequence[BadOutput]) -> None:
        """Trace the values of a step; ``tracker`` has the results until the next step."""
        self.tracker.begin_step()
        self._listing = listing
        step = _Step(listing, graph, {(each.op, each.slot): each for each in bad}, self)
        for observed in step.observations():
            self.tracker.look(observed)
        sees_all = bool(bad) and _is_complete(listing, graph)
        self.tracker.end_step(graph.nodes, sees_all=sees_all)
        self._by_fingerprint, self._results = step.fingerprints, step.results
        self._of_leaves.update(step.leaves)
        self._alive = [*step.fingerprints.values(), *self._of_leaves.values()]

    def _facts(self, observed: StoredOp) -> OpFacts | None:
        return None if self._listing is None else stored_facts(self._listing, observed.node)

    def memory_of_leaf(self, node: Node, found: BadOutput, listing: StepTensors) -> _Memory:
        """The memory of an earlier step, if an op wrote to it there, or the values are equal.

        The values of data identify no tensor if all elements are the same. Then only the result of
        an op that the previous step did not use counts, if there is exactly one with these values:
        a hidden state is computed for the next step, new data are not.
        """
        by_name = self._of_leaves.get(node.name)
        by_values = self._by_fingerprint.get(found.fingerprint)
        is_data = node.kind == "input" and not node.name.endswith(".grad")
        if is_data:
            if self._inputs.get(node.name) != found.fingerprint:
                by_name = None
            self._inputs[node.name] = found.fingerprint
            if by_name is None and _is_uniform(listing, found):
                results = self._results.get(found.fingerprint, set())
                by_values = next(iter(results)) if len(results) == 1 else None
        if is_data or node.kind == "parameter":
            return by_name or by_values or _Memory()
        return by_values or by_name or _Memory()


class _Step:
    """One step while it is traced."""

    def __init__(
        self,
        listing: StepTensors,
        graph: GraphIndex,
        bad: dict[Place, BadOutput],
        origins: RankOrigins,
    ) -> None:
        self._listing = listing
        self._graph = graph
        self._bad = bad
        self._origins = origins
        self._memory = graph.memory
        self._made: dict[Place, _Memory] = {}
        # Parameters whose values in the dump are those after the step.
        self._late: set[str] = set()
        self._used = find_used(graph.nodes) if bad else set()
        self.fingerprints: dict[str, _Memory] = {}
        self.results: dict[str, set[_Memory]] = {}
        self.leaves: dict[str, _Memory] = {}

    def observations(self) -> Iterator[StoredOp]:
        """Every op with NaN or Inf, in execution order; leaves before their first use, and at the
        end parameters that were dumped after the step."""
        names = {op for op, _ in self._bad}
        involved: list[Node] = []
        late: list[Node] = []
        for node in self._graph.nodes:
            is_bad = node.name in names or self._passes_on(node)
            if is_bad and is_late(self._listing, self._graph, node):
                late.append(node)
            elif is_bad or any((each.producer, each.slot) in self._bad for each in node.inputs):
                involved.append(node)
        self._late = {node.name for node in late}
        for node in involved:
            yield self._observe(node)
        for node in late:
            yield self._observe_late(node)

    def _passes_on(self, node: Node) -> bool:
        """Whether an op that is not in the dump passed NaN or Inf from its inputs to another op."""
        if node.kind != "op" or self._listing.of_op(node.name):
            return False
        if not any((each.producer, each.slot) in self._bad for each in node.inputs):
            return False
        for _, name in self._graph.consumers(node.name):
            for number, edge in enumerate(self._graph.node(name).inputs):
                own = self._listing.find(name, "input", number)
                if edge.producer != node.name or own is None:
                    continue
                kind = DumpTensor(self._listing, own).bad_kind()
                if kind in ("inf", "nan"):
                    is_nan = kind == "nan"
                    made = BadOutput(node.name, edge.slot, node.order, is_nan, node.name)
                    self._bad[node.name, edge.slot] = made
                    return True
        return False

    def _observe(self, node: Node) -> StoredOp:
        inputs = [
            view
            for slot in range(len(node.inputs))
            if (view := self._input(node, slot)) is not None
        ]
        return self._op(node, core_node(node), inputs)

    def _op(self, node: Node, core: OpNode, inputs: Sequence[StoredTensorView]) -> StoredOp:
        outputs = [
            self._output(node, found)
            for slot in range(max(len(node.outputs), 1))
            if (found := self._bad.get((node.name, slot))) is not None
        ]
        step = self._listing.step.step
        return StoredOp(core, step, node.order, inputs, outputs)

    def _output(self, node: Node, found: BadOutput) -> StoredTensorView:
        place = (node.name, found.slot)
        root = self._memory.root(*place)
        memory = self._made.get(root)
        if memory is None:
            is_op = node.kind == "op"
            memory = (
                _Memory() if is_op else self._origins.memory_of_leaf(node, found, self._listing)
            )
            self._made[root] = memory
        self.fingerprints[found.fingerprint] = memory
        if self._graph.node(root[0]).kind != "op":
            self.leaves[root[0]] = memory
        elif node.phase != "optimizer" and place not in self._used:
            self.results.setdefault(found.fingerprint, set()).add(memory)
        is_filled = self._memory.is_filled(*place)
        return StoredTensorView("output", found.slot, True, found.has_nan, memory, is_filled)

    def _input(self, node: Node, slot: int) -> StoredTensorView | None:
        """The input; None if it is not known whether it was finite."""
        edge = node.inputs[slot]
        is_filled = self._memory.is_input_filled((edge.producer, edge.slot, edge.type.shape))
        own = self._listing.find(node.name, "input", slot)
        kind = None if own is None else DumpTensor(self._listing, own).bad_kind()
        memory = None
        if edge.producer is not None:
            memory = self._made.get(self._memory.root(edge.producer, edge.slot))
            if kind is None and edge.producer not in self._late:
                given = self._bad.get((edge.producer, edge.slot))
                if given is not None:
                    kind = "nan" if given.has_nan else "inf"
                elif self._listing.find(edge.producer, "output", edge.slot) is not None:
                    kind = "finite"
        if kind is None:
            return None
        return StoredTensorView("input", slot, kind != "finite", kind == "nan", memory, is_filled)

    def _observe_late(self, leaf: Node) -> StoredOp:
        """A parameter after its update: its values come from the optimizer's op, or from an input
        of that op."""
        edges: list[Edge] = []
        inputs: list[StoredTensorView] = []
        for _, name in self._graph.consumers(leaf.name):
            update = self._graph.node(name)
            if update.phase != "optimizer":
                continue
            places = [(update.name, slot) for slot in range(len(update.outputs))]
            places += [(each.producer or "", each.slot) for each in update.inputs]
            for producer, slot in places:
                found = self._bad.get((producer, slot))
                if found is not None and producer != leaf.name and producer not in self._late:
                    spec = TensorSpec("", ())
                    inputs.append(StoredTensorView("input", len(edges), True, found.has_nan))
                    edges.append(Edge(producer, slot, spec))
        return self._op(leaf, replace(core_node(leaf), inputs=tuple(edges)), inputs)


def is_late(listing: StepTensors, graph: GraphIndex, leaf: Node) -> bool:
    """Whether the dump has a parameter's value after the step, as those of MindSpore do."""
    if leaf.kind != "parameter":
        return False
    stored = listing.find(leaf.name, "output", 0)
    readers = (listing.of_op(name) for _, name in graph.consumers(leaf.name))
    first = min((each[0].order for each in readers if each), default=None)
    return stored is not None and first is not None and stored.order > first


def _is_uniform(listing: StepTensors, found: BadOutput) -> bool:
    """Whether all elements have the same value, or the dump does not have the values."""
    stored = listing.find(found.op, "output", found.slot)
    tensor = None if stored is None else DumpTensor(listing, stored)
    if tensor is None or not tensor.has_values:
        return True
    array = tensor.values().array.ravel()
    return array.tobytes() == array[:1].tobytes() * array.size


def _is_complete(listing: StepTensors, graph: GraphIndex) -> bool:
    """Whether the dump has an output of every op of the step that has one."""
    return all(
        listing.of_op(node.name) for node in graph.nodes if node.kind == "op" and node.outputs
    )
