"""Encodes a Graph as the bytes of a ``.pb`` graph file."""

from __future__ import annotations

from dataclasses import dataclass

from sonde.core.graph import Edge, Graph, OpNode, Source
from sonde.core.protobuf_wire import encode_bytes, encode_text, encode_uint, encode_uints
from sonde.dump.graph_files import schema
from sonde.dump.graph_files.schema import (
    DOMAIN,
    KINDS,
    PHASES,
    ExtraFields,
    GraphProto,
    InputProto,
    NamedValueProto,
    NodeProto,
    ParameterProto,
)
from sonde.dump.graph_files.source_lines import source_text
from sonde.dump.graph_files.values import encode_specs, encode_string_value


def encode_graph(graph: Graph) -> bytes:
    """The bytes of a ``ModelProto``; the same graph always gives the same bytes."""
    return (
        encode_uint(schema.ModelProto.IR_VERSION, 1)
        + encode_text(schema.ModelProto.DOMAIN, DOMAIN)
        + encode_uint(schema.ModelProto.MODEL_VERSION, 1)
        + encode_bytes(schema.ModelProto.GRAPH, _Encoder.of(graph).encode())
    )


@dataclass(frozen=True, slots=True)
class _Encoder:
    """Encodes one graph; ``keys`` are the names that inputs refer to."""

    graph: Graph
    positions: dict[str, int]
    keys: tuple[str, ...]
    sources: dict[Source, int]

    @classmethod
    def of(cls, graph: Graph) -> _Encoder:
        keys, ops, constants = [], 0, 0
        for node in graph:
            if node.kind == "op":
                ops += 1
                keys.append(str(ops))
            elif node.kind == "constant":
                constants += 1
                keys.append(f"cst{constants}")
            else:
                keys.append(node.name)
        every = dict.fromkeys(source for node in graph for source in node.sources)
        return cls(
            graph,
            {node.name: position for position, node in enumerate(graph)},
            tuple(keys),
            {source: index for index, source in enumerate(every)},
        )

    def encode(self) -> bytes:
        parts = [
            encode_text(GraphProto.NAME, self.graph.name),
            encode_text(GraphProto.ROOT_NAME, str(self.graph.id)),
            encode_uint(GraphProto.ID, self.graph.id),
        ]
        for position, node in enumerate(self.graph):
            key = self.keys[position]
            if node.kind == "op":
                parts.append(encode_bytes(GraphProto.NODE, self._op(position, key, node)))
            elif node.kind == "constant":
                parts.append(encode_bytes(GraphProto.CONSTANT, self._constant(position, key, node)))
            else:
                parts.append(encode_bytes(GraphProto.PARAMETER, self._parameter(position, node)))
        parts.extend(
            encode_bytes(GraphProto.SOURCE, _encode_source(source)) for source in self.sources
        )
        return b"".join(parts)

    def _op(self, position: int, key: str, node: OpNode) -> bytes:
        parts = [encode_bytes(NodeProto.INPUT, self._input(edge)) for edge in node.inputs]
        parts += [
            encode_text(NodeProto.NAME, key),
            encode_text(NodeProto.OP_TYPE, node.type),
            encode_text(NodeProto.SCOPE, node.scope),
        ]
        parts += _encode_attributes(NodeProto.ATTRIBUTE, node)
        parts.append(encode_bytes(NodeProto.OUTPUT_TYPE, encode_specs(node.outputs)))
        parts.append(encode_text(NodeProto.FULL_NAME, node.name))
        if node.sources:
            lines = "".join(f"      {source_text(source)}\n" for source in node.sources)
            parts.append(encode_text(NodeProto.SOURCE_ADDRESS, lines))
        return b"".join(parts) + self._extra(position, node)

    def _parameter(self, position: int, node: OpNode) -> bytes:
        return (
            encode_text(ParameterProto.NAME, node.name)
            + encode_bytes(ParameterProto.TYPE, encode_specs(node.outputs))
            + self._extra(position, node)
            + self._extra_of_leaf(node)
        )

    def _constant(self, position: int, key: str, node: OpNode) -> bytes:
        return (
            encode_text(NamedValueProto.KEY, key)
            + encode_text(NamedValueProto.FULL_NAME, node.name)
            + self._extra(position, node)
            + self._extra_of_leaf(node)
            + encode_bytes(ExtraFields.OUTPUT_TYPE, encode_specs(node.outputs))
        )

    def _extra(self, position: int, node: OpNode) -> bytes:
        extra = (
            encode_uint(ExtraFields.POSITION, position)
            + encode_uint(ExtraFields.PHASE, PHASES.index(node.phase))
            + encode_uint(ExtraFields.KIND, KINDS.index(node.kind))
        )
        if node.sources:
            indices = tuple(self.sources[source] for source in node.sources)
            extra += encode_uints(ExtraFields.SOURCES, indices)
        return extra

    def _extra_of_leaf(self, node: OpNode) -> bytes:
        parts = [
            encode_text(ExtraFields.OP_TYPE, node.type),
            encode_text(ExtraFields.SCOPE, node.scope),
        ]
        parts += _encode_attributes(ExtraFields.ATTRIBUTE, node)
        parts += [encode_bytes(ExtraFields.INPUT, self._input(edge)) for edge in node.inputs]
        return b"".join(parts)

    def _input(self, edge: Edge) -> bytes:
        slot = encode_uint(InputProto.SLOT, edge.slot) if edge.slot else b""
        position = None if edge.producer is None else self.positions.get(edge.producer)
        if position is None:
            name = edge.producer or ""
            known = b"" if edge.producer is None else encode_text(InputProto.PRODUCER_NAME, name)
            spec = encode_bytes(InputProto.SPEC, encode_specs((edge.spec,)))
            return (
                encode_text(InputProto.NAME, name)
                + encode_uint(InputProto.TYPE, 0)
                + known
                + slot
                + spec
            )
        outputs = self.graph.nodes[position].outputs
        is_as_produced = 0 <= edge.slot < len(outputs) and outputs[edge.slot] == edge.spec
        return (
            encode_text(InputProto.NAME, self.keys[position])
            + encode_uint(InputProto.TYPE, 0)
            + encode_uint(InputProto.PRODUCER, position + 1)
            + slot
            + (b"" if is_as_produced else encode_bytes(InputProto.SPEC, encode_specs((edge.spec,))))
        )


def _encode_attributes(number: int, node: OpNode) -> list[bytes]:
    return [
        encode_bytes(
            number,
            encode_text(schema.AttributeProto.NAME, name)
            + encode_bytes(schema.AttributeProto.VALUE, encode_string_value(text)),
        )
        for name, text in node.attributes
    ]


def _encode_source(source: Source) -> bytes:
    return (
        encode_text(schema.SourceProto.FILE, source.file)
        + encode_uint(schema.SourceProto.LINE, source.line)
        + encode_text(schema.SourceProto.FUNCTION, source.function)
        + encode_text(schema.SourceProto.CODE, source.code)
    )
