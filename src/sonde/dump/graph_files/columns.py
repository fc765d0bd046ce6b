"""Large graphs as columns, and the side file that stores them beside their ``.pb``.

Decoding a ``.pb`` message by message takes about 50 µs per op, which is noticeable from some
thousand ops on. For graphs that large the dump has a side file (``RankLayout.graph_columns``) with
the same contents as msgpack, which is decoded in a tenth of the time. It adds nothing to the
``.pb`` and may be deleted. A side file is used only if it states the size and the hash of the
``.pb`` beside it and its columns fit together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Final, Generic, TypeVar

import msgspec
import xxhash

from sonde.core.graph import Edge, Graph, Kind, OpNode, Phase, Source, TensorSpec

T = TypeVar("T")

MIN_NODES: Final = 500
"""Graphs with fewer nodes get no side file: their ``.pb`` is decoded fast enough."""
MAX_FILE_BYTES: Final = 64 << 20
"""Enough for half a million ops. Decoded objects take up to about 25 times the bytes."""
_FORMAT: Final = 1

EdgeRow = tuple[str | None, int, TensorSpec]
_Index = Annotated[int, msgspec.Meta(ge=0)]


@dataclass(frozen=True, slots=True)
class GraphColumns:
    """The fields of all nodes of a Graph, one sequence per field.

    The rows of ``inputs`` have the fields of ``Edge``. Equal cells are mostly the same object.
    """

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
            inputs=[[(e.producer, e.slot, e.spec) for e in node.inputs] for node in graph],
            **{
                column: [getattr(node, field) for node in graph]
                for column, field in _REPEATING.items()
            },
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


_REPEATING: Final = {
    "types": "type",
    "scopes": "scope",
    "phases": "phase",
    "kinds": "kind",
    "outputs": "outputs",
    "attributes": "attributes",
    "sources": "sources",
}
"""The columns with few distinct cells, and their fields of OpNode."""


class _Repeating(msgspec.Struct, Generic[T], frozen=True, array_like=True):
    """A column with few distinct cells: each cell once, and for each row its index."""

    cells: tuple[T, ...]
    rows: list[_Index]

    @classmethod
    def of(cls, values: Iterable[T]) -> _Repeating[T]:
        known: dict[T, int] = {}
        rows = [known.setdefault(value, len(known)) for value in values]
        return cls(tuple(known), rows)

    def expanded(self) -> list[T]:
        cells = self.cells
        return [cells[row] for row in self.rows]


class _Edges(msgspec.Struct, frozen=True, array_like=True):
    """The inputs of all nodes one after the other; ``counts`` has the number of each node.

    A producer is an index into the names of the nodes followed by ``unknown_names``, which are in
    no node of the graph; -1 means None.
    """

    counts: list[_Index]
    producers: list[Annotated[int, msgspec.Meta(ge=-1)]]
    unknown_names: list[str]
    slots: list[int]
    specs: _Repeating[TensorSpec]

    @classmethod
    def of(cls, columns: GraphColumns) -> _Edges:
        edges = [row for rows in columns.inputs for row in rows]
        names = dict.fromkeys(columns.names)
        unknown = dict.fromkeys(
            name for name, _, _ in edges if name not in names and name is not None
        )
        positions: dict[str | None, int] = {
            name: index for index, name in enumerate([*names, *unknown])
        }
        positions[None] = -1
        return cls(
            [len(rows) for rows in columns.inputs],
            [positions[producer] for producer, _, _ in edges],
            list(unknown),
            [slot for _, slot, _ in edges],
            _Repeating.of(spec for _, _, spec in edges),
        )

    def expanded(self, names: list[str]) -> list[list[EdgeRow]]:
        """The inputs of each node; ``names`` are those of the nodes."""
        if sum(self.counts) != len(self.producers):
            raise ValueError("edges of no node")
        producers = [*names, *self.unknown_names, None]  # so that -1 is None
        edges = zip(
            [producers[index] for index in self.producers],
            self.slots,
            self.specs.expanded(),
            strict=True,
        )
        return [list(islice(edges, count)) for count in self.counts]


class _SideFile(msgspec.Struct, frozen=True, array_like=True):
    format: int
    pb_bytes: int
    pb_xxh3: str
    id: int
    name: str
    names: list[str]
    types: _Repeating[str]
    scopes: _Repeating[str]
    phases: _Repeating[Phase]
    kinds: _Repeating[Kind]
    edges: _Edges
    outputs: _Repeating[tuple[TensorSpec, ...]]
    attributes: _Repeating[tuple[tuple[str, str], ...]]
    sources: _Repeating[tuple[Source, ...]]

    def columns(self) -> GraphColumns:
        """IndexError or ValueError if the columns do not fit together."""
        inputs = self.edges.expanded(self.names)
        repeating = {name: getattr(self, name).expanded() for name in _REPEATING}
        if any(len(each) != len(self.names) for each in (inputs, *repeating.values())):
            raise ValueError("columns of different lengths")
        if len(set(self.names)) != len(self.names):
            raise ValueError("two nodes with the same name")
        return GraphColumns(self.id, self.name, self.names, inputs=inputs, **repeating)


_DECODER: Final = msgspec.msgpack.Decoder(_SideFile)


def encode_columns(graph: Graph, pb: bytes) -> bytes | None:
    """The bytes of the side file of a graph whose ``.pb`` file is ``pb``; None if it needs none."""
    if len(graph) < MIN_NODES:
        return None
    columns = GraphColumns.of(graph)
    stored = _SideFile(
        _FORMAT,
        len(pb),
        xxhash.xxh3_128_hexdigest(pb),
        columns.id,
        columns.name,
        list(columns.names),
        edges=_Edges.of(columns),
        **{name: _Repeating.of(getattr(columns, name)) for name in _REPEATING},
    )
    try:
        data = msgspec.msgpack.encode(stored)
    except (UnicodeEncodeError, OverflowError):  # A lone surrogate; a number beyond 64 bits.
        return None
    return data if len(data) <= MAX_FILE_BYTES else None


def decode_columns(data: bytes, pb: bytes) -> GraphColumns | None:
    """The columns in the side file ``data``; None if it does not belong to ``pb`` or is damaged."""
    try:
        stored = _DECODER.decode(data)
        if (stored.format, stored.pb_bytes) != (_FORMAT, len(pb)):
            return None
        is_of_pb = stored.pb_xxh3 == xxhash.xxh3_128_hexdigest(pb)
        return stored.columns() if is_of_pb else None
    except (msgspec.DecodeError, UnicodeDecodeError, IndexError, ValueError):
        return None
