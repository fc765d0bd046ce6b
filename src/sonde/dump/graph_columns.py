"""A large graph as columns: what one needs all nodes of, without an object for each of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np

from sonde.core.graph import Edge, Graph, Kind, OpNode, Phase, Source, TensorSpec
from sonde.dump.anf_bulk import CONSTANT, OP, PARAMETER, BulkDecoder, NodeColumns
from sonde.dump.anf_decode import MAX_ITEMS, PartDecoder, decode_source
from sonde.dump.anf_schema import KINDS, PHASES, GraphProto, Model
from sonde.dump.anf_values import NOT_A_TENSOR
from sonde.dump.protowire import BYTES, Field, Message, WireError
from sonde.dump.wire_columns import IrregularError

T = TypeVar("T")

MANY: Final = 500
"""Fields of a graph from which on columns are worth it."""
_NODES: Final = {
    GraphProto.NODE: OP,
    GraphProto.PARAMETER: PARAMETER,
    GraphProto.CONSTANT: CONSTANT,
}

Spans = dict[int, list[int]]
EdgeRow = tuple[str | None, int, TensorSpec]


@dataclass(frozen=True, slots=True)
class GraphColumns:
    """The fields of the nodes of a Graph, each a list; ``inputs`` has those of ``Edge``."""

    id: int
    name: str
    names: Sequence[str]
    types: Sequence[str]
    scopes: Sequence[str]
    phases: Sequence[Phase]
    kinds: Sequence[Kind]
    inputs: Sequence[Sequence[EdgeRow]]
    outputs: Sequence[tuple[TensorSpec, ...]]
    attributes: Sequence[tuple[tuple[str, str], ...]]
    sources: Sequence[tuple[Source, ...]]

    def __len__(self) -> int:
        return len(self.names)

    @classmethod
    def of(cls, graph: Graph) -> GraphColumns:
        return cls(
            graph.id,
            graph.name,
            [node.name for node in graph],
            [node.type for node in graph],
            [node.scope for node in graph],
            [node.phase for node in graph],
            [node.kind for node in graph],
            [[(e.producer, e.slot, e.spec) for e in node.inputs] for node in graph],
            [node.outputs for node in graph],
            [node.attributes for node in graph],
            [node.sources for node in graph],
        )

    def graph(self) -> Graph:
        columns = zip(
            self.names,
            self.types,
            self.scopes,
            self.phases,
            self.kinds,
            [tuple([Edge(*row) for row in rows]) for rows in self.inputs],
            self.outputs,
            self.attributes,
            self.sources,
            strict=True,
        )
        return Graph(self.id, self.name, tuple([OpNode(*cells) for cells in columns]))


def decode_columns(data: bytes) -> GraphColumns | None:
    """A large graph by Sonde; None if it is another one, or not regular.

    What it gives is what ``graph_pb.decode_graph`` gives, which says what is wrong with the rest.
    """
    try:
        whole = Message(data, 0, len(data)).fields()
        (graph,) = (item for item in whole if item.number == Model.GRAPH)
        spans, others = _sorted_fields(data, *graph.span())
        is_large = sum(map(len, spans.values())) >= 2 * MANY
        is_own = any(item.number == GraphProto.ID for item in others)
        return _decode_graph(data, spans, others) if is_large and is_own else None
    except (IrregularError, WireError, IndexError, ValueError):
        return None


def _sorted_fields(data: bytes, position: int, stop: int) -> tuple[Spans, list[Field]]:
    """Where the nodes are, by the numbers of their fields, and all other fields of a graph.

    The plain loop over a hundred thousand nodes: what takes more than its few cases is left to
    ``Message.fields``.
    """
    spans: Spans = {number: [] for number in _NODES}
    keys = {number << 3 | BYTES: spans[number] for number in _NODES}
    whole = Message(data, 0, stop, 1)
    others: list[Field] = []
    while position < stop:
        found = keys.get(data[position])
        if found is None:
            item = next(iter(whole._replace(start=position).fields()))
            others.append(item)
            position = item.stop
            continue
        position += 1
        length = shift = 0
        while (byte := data[position]) >= 0x80:
            length |= (byte & 0x7F) << shift
            shift += 7
            position += 1
        length |= byte << shift
        position += 1
        found.append(position)
        position += length
        if position > stop or shift > 28:
            raise IrregularError
        found.append(position)
    return spans, others


def _decode_graph(data: bytes, spans: Spans, others: Sequence[Field]) -> GraphColumns:
    decoder = PartDecoder()
    parts = [
        BulkDecoder(data, spans[number], numbers, decoder).columns()
        for number, numbers in _NODES.items()
    ]
    name, graph_id, sources = "", 0, []
    for item in others:
        if item.number == GraphProto.NAME:
            name = item.as_text()
        elif item.number == GraphProto.ID:
            graph_id = item.as_int()
        elif item.number == GraphProto.SOURCE:
            sources.append(decode_source(item.as_message()))
    if sum(part.items for part in parts) + len(sources) > MAX_ITEMS:
        raise IrregularError
    return _join(graph_id, name, parts, sources)


def _join(
    graph_id: int, name: str, parts: Sequence[NodeColumns], sources: Sequence[Source]
) -> GraphColumns:
    """The nodes in their order; IrregularError where one is missing."""
    position = np.concatenate([part.position for part in parts])
    order = np.argsort(position, kind="stable")
    if (position[order] != np.arange(len(order))).any():
        raise IrregularError
    places = order.tolist()
    names = _ordered((part.name for part in parts), places)
    if len(set(names)) != len(names):
        raise IrregularError
    outputs = _ordered((part.outputs for part in parts), places)
    inputs: list[list[EdgeRow]] = [[] for _ in names]
    for part in parts:
        _wire(part, names, outputs, inputs)
    stacks = _stacks({each for part in parts for each in part.sources}, sources)
    return GraphColumns(
        graph_id,
        name,
        names,
        _ordered((part.type for part in parts), places),
        _ordered((part.scope for part in parts), places),
        [PHASES[n] for n in np.concatenate([part.phase for part in parts])[order].tolist()],
        [KINDS[n] for n in np.concatenate([part.kind for part in parts])[order].tolist()],
        inputs,
        outputs,
        _ordered((part.attributes for part in parts), places),
        [stacks[each] for each in _ordered((part.sources for part in parts), places)],
    )


def _ordered(parts: Iterable[list[T]], places: Sequence[int]) -> list[T]:
    every = [each for part in parts for each in part]
    return [every[place] for place in places]


def _wire(
    part: NodeColumns,
    names: Sequence[str],
    outputs: Sequence[tuple[TensorSpec, ...]],
    inputs: Sequence[list[EdgeRow]],
) -> None:
    columns = part.inputs
    if columns.producer.size and columns.producer.max() >= len(names):
        raise IrregularError
    targets = part.position[columns.owner].tolist()
    rows = zip(targets, columns.producer.tolist(), columns.slot.tolist(), strict=True)
    for number, (target, producer, slot) in enumerate(rows):
        spec = columns.specs.get(number)
        if producer < 0:
            origin = columns.names.get(number)
            inputs[target].append((origin, slot, spec or NOT_A_TENSOR))
            continue
        if spec is None:
            specs = outputs[producer]
            if slot >= len(specs):
                raise IrregularError
            spec = specs[slot]
        inputs[target].append((names[producer], slot, spec))


def _stacks(
    wanted: Iterable[tuple[int, ...]], sources: Sequence[Source]
) -> dict[tuple[int, ...], tuple[Source, ...]]:
    if any(index >= len(sources) for each in wanted for index in each):
        raise IrregularError
    return {each: tuple(sources[index] for index in each) for each in wanted}
