"""Graph files ``.pb``: a Graph in the wire format of MindSpore's graph files.

The schema is ``anf_ir.proto``. Decoding what ``encode_graph`` wrote gives an equal Graph. A file
by MindSpore gives a Graph with its names, types, wiring, shapes and attributes: the index of a
``TupleGetItem`` is the slot of its edge, a leaf comes just before its first use, phases follow
from the scopes, and sources are the user's own lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sonde.core.errors import DumpError
from sonde.core.files.protobuf_wire import WireError
from sonde.core.graph import GRADIENTS, LEAF_TYPES, Edge, Graph, OpNode, Phase, Source
from sonde.dump import layout
from sonde.dump.bounded_file import read_bytes
from sonde.dump.graph_files import columns as side_file
from sonde.dump.graph_files.columns import GraphColumns
from sonde.dump.graph_files.decode import RawGraph, RawInput, RawNode, decode_raw
from sonde.dump.graph_files.encode import encode_graph
from sonde.dump.graph_files.source_lines import read_pb_sources, users_own
from sonde.dump.graph_files.values import NOT_A_TENSOR

__all__ = [
    "MAX_FILE_BYTES",
    "GraphFile",
    "GraphWriter",
    "decode_graph",
    "encode_graph",
    "read_columns",
    "read_graph_file",
]

MAX_FILE_BYTES = 512 << 20
_BATCH_INPUT = re.compile(r"inputs[0-9]+")


GraphWriter = Literal["sonde", "mindspore", "msprobe"]


@dataclass(frozen=True, slots=True)
class GraphFile:
    """A decoded graph and its writer. MindSpore's order of nodes is not the order they ran in."""

    graph: Graph
    writer: GraphWriter


def read_graph_file(path: Path, graph_id: int) -> GraphFile:
    """The graph in the file at ``path``; ``graph_id`` is from its name. DumpError names the place.

    Memory use is proportional to the file, at most about 1 GB, also for hostile files.
    """
    data = read_bytes(path, MAX_FILE_BYTES, slug="graph-file")
    columns = _stored_columns(path, data)
    if columns is not None:
        return GraphFile(columns.graph(), "sonde")
    try:
        return decode_graph(data, graph_id)
    except WireError as error:
        raise DumpError(f"{path}: not a graph file: {error}", slug="graph-file") from None


def read_columns(path: Path) -> GraphColumns | None:
    """The columns in the side file of the ``.pb`` at ``path``; None without a valid side file."""
    try:
        return _stored_columns(path, read_bytes(path, MAX_FILE_BYTES, slug="graph-file"))
    except DumpError:
        return None


def _stored_columns(path: Path, data: bytes) -> GraphColumns | None:
    file = layout.columns_file(path)
    try:
        stored = read_bytes(file, side_file.MAX_FILE_BYTES, slug="graph-file")
    except DumpError:
        return None
    return side_file.decode_columns(stored, data)


def decode_graph(data: bytes, graph_id: int = 0) -> GraphFile:
    """The graph in these bytes; WireError, with the byte, if they are damaged."""
    raw = decode_raw(data)
    if raw.id is not None:
        return GraphFile(_own_graph(raw), "sonde")
    nodes = tuple(_Foreign.of(raw).nodes())
    return GraphFile(Graph(graph_id, raw.name or f"kernel_graph{graph_id}", nodes), "mindspore")


def _own_graph(raw: RawGraph) -> Graph:
    ordered = sorted(raw.nodes, key=lambda node: -1 if node.position is None else node.position)
    for position, node in enumerate(ordered):
        if node.position != position:
            raise WireError(f"the node at position {position} is missing", node.at)
    if len({node.name for node in ordered}) != len(ordered):
        raise WireError("two nodes have the same name", 0)
    nodes = tuple(
        OpNode(
            node.name,
            node.type,
            node.scope,
            node.phase,
            node.kind,
            tuple(_own_edge(item, node, ordered) for item in node.inputs),
            node.outputs,
            tuple(node.attributes),
            tuple(_own_source(index, node, raw) for index in node.sources),
        )
        for node in ordered
    )
    return Graph(raw.id or 0, raw.name, nodes)


def _own_edge(item: RawInput, node: RawNode, nodes: list[RawNode]) -> Edge:
    if item.producer is None:
        return Edge(item.producer_name, item.slot, item.spec or NOT_A_TENSOR)
    if not 0 <= item.producer < len(nodes):
        raise WireError(f"an input of {node.name} comes from no node", node.at)
    producer = nodes[item.producer]
    spec = item.spec
    if spec is None:
        if not 0 <= item.slot < len(producer.outputs):
            raise WireError(f"{producer.name} has no output {item.slot}", node.at)
        spec = producer.outputs[item.slot]
    return Edge(producer.name, item.slot, spec)


def _own_source(index: int, node: RawNode, raw: RawGraph) -> Source:
    if index >= len(raw.sources):
        raise WireError(f"{node.name} has a source line that is not in the file", node.at)
    return raw.sources[index]


@dataclass(frozen=True, slots=True)
class _Foreign:
    """A graph by MindSpore, whose inputs name nodes by their keys."""

    ops: list[RawNode]
    by_key: dict[str, RawNode]

    @classmethod
    def of(cls, raw: RawGraph) -> _Foreign:
        taken: dict[str, int] = {}
        for node in raw.nodes:
            node.name = _unique(node.name, taken)
        return cls(
            [node for node in raw.nodes if node.kind == "op"],
            # Ops come last, so that an op wins where a leaf has the same key.
            {node.key: node for node in sorted(raw.nodes, key=lambda node: node.kind == "op")},
        )

    def nodes(self) -> Iterator[OpNode]:
        placed: set[str] = set()
        leaves = [node for node in self.by_key.values() if node.kind != "op"]
        for op in self.ops:
            for item in op.inputs:
                producer = self.by_key.get(item.name)
                if producer and producer.kind != "op" and producer.name not in placed:
                    placed.add(producer.name)
                    yield self._node(producer)
            yield self._node(op)
        for leaf in leaves:
            if leaf.name not in placed:
                yield self._node(leaf)

    def _node(self, raw: RawNode) -> OpNode:
        kind = raw.kind
        if kind == "parameter" and _BATCH_INPUT.fullmatch(raw.name):
            kind = "input"
        return OpNode(
            raw.name,
            raw.type if kind == "op" else LEAF_TYPES[kind],
            raw.scope,
            _phase(raw.name),
            kind,
            tuple(self._edge(raw, item) for item in raw.inputs),
            raw.outputs,
            tuple(raw.attributes),
            users_own(read_pb_sources(raw.source_address)),
        )

    def _edge(self, raw: RawNode, item: RawInput) -> Edge:
        producer = self.by_key.get(item.name)
        if producer is None:
            return Edge(item.name or None, 0, NOT_A_TENSOR)
        slot = 0
        if raw.type == "TupleGetItem" and item is raw.inputs[0] and len(raw.inputs) == 2:
            index = self.by_key.get(raw.inputs[1].name)
            slot = max(index.index or 0, 0) if index is not None else 0
        spec = producer.outputs[slot] if slot < len(producer.outputs) else NOT_A_TENSOR
        return Edge(producer.name, slot, spec)


def _unique(name: str, taken: dict[str, int]) -> str:
    """``name``, or ``name#2`` and so on; ``taken`` counts the uses of each name."""
    unique = name
    while unique in taken:
        taken[name] += 1
        unique = f"{name}#{taken[name]}"
    taken[unique] = 1
    return unique


def _phase(name: str) -> Phase:
    if name.startswith(GRADIENTS):
        return "backward"
    return "optimizer" if name.startswith("Default/optimizer-") else "forward"
