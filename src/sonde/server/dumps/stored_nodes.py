"""Converts the nodes of a graph on disk to nodes of the wire, with their categories."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Sequence
from typing import Generic, TypeVar

from sonde.core.graph import OpNode, TensorSpec
from sonde.dump.graph_files.columns import EdgeRow, GraphColumns
from sonde.watch.categories import ACTIVATION, GRADIENT, TENSOR, WEIGHT, is_activation
from sonde.watch.graph_memory import GraphMemory, MemoryNode
from sonde.watch.op_types import ORDERING
from sonde.wire.convert import source_lines, tensor_type
from sonde.wire.shapes import Category, InputEdge, Node, TensorType

K = TypeVar("K")
V = TypeVar("V")


def wire_nodes(graph: GraphColumns) -> tuple[Node, ...]:
    """The nodes of a graph on disk, with their categories.

    A weight is a parameter that both the network and the optimizer read, maybe through views;
    without an optimizer, one that the network reads and that is not a running mean. A gradient is
    a tensor that the backward pass computed, maybe changed in place since, and the optimizer reads.
    """
    convert = _Converter()
    columns = zip(
        graph.names,
        graph.types,
        graph.scopes,
        graph.phases,
        graph.kinds,
        range(len(graph)),
        [convert.inputs(rows) for rows in graph.inputs],
        [convert.outputs(specs) for specs in graph.outputs],
        graph.attributes,
        [convert.sources(stack) for stack in graph.sources],
        _categories(graph),
        strict=True,
    )
    return tuple([Node(*cells) for cells in columns])


class _Converter:
    """Converts each shape and stack once; they are shared objects, which occur many times."""

    def __init__(self) -> None:
        self._type = _Once(tensor_type)
        self.outputs = _Once(self._outputs)
        self.sources = _Once(source_lines)

    def _outputs(self, specs: tuple[TensorSpec, ...]) -> tuple[TensorType, ...]:
        return tuple(self._type(spec) for spec in specs)

    def inputs(self, rows: Sequence[EdgeRow]) -> tuple[InputEdge, ...]:
        kind = self._type
        return tuple([InputEdge(producer, slot, kind(spec)) for producer, slot, spec in rows])


class _Once(Generic[K, V]):
    """A function whose results are cached by the identity of its argument, which is kept alive."""

    def __init__(self, function: Callable[[K], V]) -> None:
        self._function = function
        self._known: dict[int, tuple[K, V]] = {}

    def __call__(self, value: K) -> V:
        found = self._known.get(id(value))
        if found is None:
            found = self._known[id(value)] = (value, self._function(value))
        return found[1]


def _categories(graph: GraphColumns) -> list[tuple[Category, ...]]:
    readers = _readers(graph)
    gradients = _gradients(graph, readers)
    trains = "optimizer" in graph.phases
    activations: dict[tuple[str, str], bool] = {}
    found: list[tuple[Category, ...]] = []
    columns = zip(graph.names, graph.types, graph.scopes, graph.phases, graph.kinds, strict=True)
    for name, type_, scope, phase, kind in columns:
        category = TENSOR
        if name in gradients:
            category = GRADIENT
        elif kind == "parameter":
            if _is_weight(name, readers.get(name, ()), trains):
                category = WEIGHT
        elif kind == "op" and phase == "forward":
            key = (type_, scope[scope.rfind("/") + 1 :])
            is_one = activations.get(key)
            if is_one is None:
                is_one = activations[key] = is_activation(OpNode("", *key, phase))
            category = ACTIVATION if is_one else TENSOR
        found.append(category)
    return found


def _readers(graph: GraphColumns) -> dict[str, set[str]]:
    """The phases in which the output of each node is read."""
    readers: defaultdict[str, set[str]] = defaultdict(set)
    for phase, rows in zip(graph.phases, graph.inputs, strict=True):
        for producer, _, _ in rows:
            if producer is not None:
                readers[producer].add(phase)
    return readers


def _gradients(graph: GraphColumns, readers: dict[str, set[str]]) -> set[str]:
    """The nodes whose outputs the backward pass computed and the optimizer reads. If it reads a
    view of a parameter, it is added to the ``readers`` of the parameter."""
    numbers = {name: number for number, name in enumerate(graph.names)}

    def find(name: str) -> MemoryNode | None:
        number = numbers.get(name)
        if number is None:
            return None
        rows = [(producer, slot, spec.shape) for producer, slot, spec in graph.inputs[number]]
        shapes = [spec.shape for spec in graph.outputs[number]]
        return MemoryNode(graph.types[number], graph.kinds[number] != "op", rows, shapes)

    memory = GraphMemory(find)
    found: set[str] = set()
    for phase, type_, rows in zip(graph.phases, graph.types, graph.inputs, strict=True):
        for producer, slot, _ in rows if phase == "optimizer" and type_ != ORDERING else ():
            if producer is None or producer not in numbers:
                continue
            root, _ = memory.root(producer, slot)
            number = numbers.get(root)
            if number is None:
                continue
            if graph.kinds[number] != "op":
                readers.setdefault(root, set()).add("optimizer")
            elif graph.phases[number] == "backward":
                found.add(producer)
    return found


def _is_weight(name: str, phases: Container[str], trains: bool) -> bool:
    if trains:
        return "forward" in phases and "optimizer" in phases
    last = name.rpartition(".")[2]
    return "forward" in phases and not last.startswith(("running_", "moving_", "num_batches"))
