"""Graph to the bytes of a ``.pb`` graph file."""

from __future__ import annotations

from dataclasses import dataclass

from sonde.core.graph import Edge, Graph, OpNode, Source
from sonde.dump import anf_schema as schema
from sonde.dump.anf_schema import (
    DOMAIN,
    KINDS,
    PHASES,
    Extra,
    GraphProto,
    Input,
    NamedValue,
    Node,
    Parameter,
)
from sonde.dump.anf_values import encode_specs, encode_string_value
from sonde.dump.protowire import encode_bytes, encode_text, encode_uint, encode_uints
from sonde.dump.source_lines import source_text


def encode_graph(graph: Graph) -> bytes:
    """The bytes of a ``ModelProto``; the same graph always gives the same bytes."""
    return (
        encode_uint(schema.Model.IR_VERSION, 1)
        + encode_text(schema.Model.DOMAIN, DOMAIN)
        + encode_uint(schema.Model.MODEL_VERSION, 1)
        + encode_bytes(schema.Model.GRAPH, _Encoder.of(graph).encode())
    )


@dataclass(frozen=True, slots=True)
class _Encoder:
    """One graph on its way to bytes; ``keys`` are the names inputs refer to."""

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
        parts = [encode_bytes(Node.INPUT, self._input(edge)) for edge in node.inputs]
        parts += [
            encode_text(Node.NAME, key),
            encode_text(Node.OP_TYPE, node.type),
            encode_text(Node.SCOPE, node.scope),
        ]
        parts += _encode_attributes(Node.ATTRIBUTE, node)
        parts.append(encode_bytes(Node.OUTPUT_TYPE, encode_specs(node.outputs)))
        parts.append(encode_text(Node.FULL_NAME, node.name))
        if node.sources:
            lines = "".join(f"      {source_text(source)}\n" for source in node.sources)
            parts.append(encode_text(Node.SOURCE_ADDRESS, lines))
        return b"".join(parts) + self._extra(position, node)

    def _parameter(self, position: int, node: OpNode) -> bytes:
        return (
            encode_text(Parameter.NAME, node.name)
            + encode_bytes(Parameter.TYPE, encode_specs(node.outputs))
            + self._extra(position, node)
            + self._extra_of_leaf(node)
        )

    def _constant(self, position: int, key: str, node: OpNode) -> bytes:
        return (
            encode_text(NamedValue.KEY, key)
            + encode_text(NamedValue.FULL_NAME, node.name)
            + self._extra(position, node)
            + self._extra_of_leaf(node)
            + encode_bytes(Extra.OUTPUT_TYPE, encode_specs(node.outputs))
        )

    def _extra(self, position: int, node: OpNode) -> bytes:
        extra = (
            encode_uint(Extra.POSITION, position)
            + encode_uint(Extra.PHASE, PHASES.index(node.phase))
            + encode_uint(Extra.KIND, KINDS.index(node.kind))
        )
        if node.sources:
            indices = tuple(self.sources[source] for source in node.sources)
            extra += encode_uints(Extra.SOURCES, indices)
        return extra

    def _extra_of_leaf(self, node: OpNode) -> bytes:
        parts = [encode_text(Extra.OP_TYPE, node.type), encode_text(Extra.SCOPE, node.scope)]
        parts += _encode_attributes(Extra.ATTRIBUTE, node)
        parts += [encode_bytes(Extra.INPUT, self._input(edge)) for edge in node.inputs]
        return b"".join(parts)

    def _input(self, edge: Edge) -> bytes:
        slot = encode_uint(Input.SLOT, edge.slot) if edge.slot else b""
        position = None if edge.producer is None else self.positions.get(edge.producer)
        if position is None:
            name = edge.producer or ""
            known = b"" if edge.producer is None else encode_text(Input.PRODUCER_NAME, name)
            spec = encode_bytes(Input.SPEC, encode_specs((edge.spec,)))
            return encode_text(Input.NAME, name) + encode_uint(Input.TYPE, 0) + known + slot + spec
        outputs = self.graph.nodes[position].outputs
        is_as_produced = 0 <= edge.slot < len(outputs) and outputs[edge.slot] == edge.spec
        return (
            encode_text(Input.NAME, self.keys[position])
            + encode_uint(Input.TYPE, 0)
            + encode_uint(Input.PRODUCER, position + 1)
            + slot
            + (b"" if is_as_produced else encode_bytes(Input.SPEC, encode_specs((edge.spec,))))
        )


def _encode_attributes(number: int, node: OpNode) -> list[bytes]:
    return [
        encode_bytes(
            number,
            encode_text(schema.Attribute.NAME, name)
            + encode_bytes(schema.Attribute.VALUE, encode_string_value(text)),
        )
        for name, text in node.attributes
    ]


def _encode_source(source: Source) -> bytes:
    return (
        encode_text(schema.Source.FILE, source.file)
        + encode_uint(schema.Source.LINE, source.line)
        + encode_text(schema.Source.FUNCTION, source.function)
        + encode_text(schema.Source.CODE, source.code)
    )
