"""Decodes the bytes of a ``.pb`` graph file, before names are resolved."""

from __future__ import annotations

from dataclasses import dataclass, field

from sonde.core.graph import Source, TensorSpec
from sonde.core.protobuf_wire import Field, Message, WireError
from sonde.dump.graph_files import schema
from sonde.dump.graph_files.raw import RawGraph, RawInput, RawNode
from sonde.dump.graph_files.schema import (
    KINDS,
    PHASES,
    ExtraFields,
    GraphProto,
    InputProto,
    NamedValueProto,
    NodeProto,
    ParameterProto,
)
from sonde.dump.graph_files.values import decode_specs, value_index, value_spec, value_text

MAX_ITEMS = 4_000_000
"""Nodes, inputs, attributes, outputs and sources of one file; keeps memory within ~1 GB."""
_SHORT = 256
_MOST_KEPT = 10_000


def decode_raw(data: bytes) -> RawGraph:
    """The graph of a ``ModelProto``; WireError, with the byte, if the data are damaged."""
    graph: RawGraph | None = None
    for item in Message(data, 0, len(data)).fields():
        if item.number == schema.ModelProto.GRAPH:
            graph = _Decoder().graph(item.as_message())
    if graph is None:
        raise WireError("there is no graph", 0)
    return graph


@dataclass(slots=True)
class PartDecoder:
    """Decodes shapes and attributes; equal bytes, which are common, are decoded once."""

    _known_specs: dict[bytes, tuple[TensorSpec, ...]] = field(default_factory=dict)
    _known_attributes: dict[bytes, tuple[str, str]] = field(default_factory=dict)

    def specs(self, item: Field) -> tuple[TensorSpec, ...]:
        raw = item.as_bytes()
        found = self._known_specs.get(raw)
        if found is None:
            found = decode_specs(item.as_message())
            if len(raw) <= _SHORT and len(self._known_specs) < _MOST_KEPT:
                self._known_specs[raw] = found
        return found

    def attribute(self, parent: Field) -> tuple[str, str]:
        raw = parent.as_bytes()
        found = self._known_attributes.get(raw)
        if found is None:
            name = text = ""
            for item in parent.as_message().fields():
                if item.number == schema.AttributeProto.NAME:
                    name = item.as_text()
                elif item.number == schema.AttributeProto.VALUE:
                    text = value_text(item.as_message())
            found = (name, text)
            if len(raw) <= _SHORT and len(self._known_attributes) < _MOST_KEPT:
                self._known_attributes[raw] = found
        return found


@dataclass(slots=True)
class _Decoder:
    items: int = 0
    parts: PartDecoder = field(default_factory=PartDecoder)

    def _count(self, item: Field, number: int = 1) -> None:
        self.items += number
        if self.items > MAX_ITEMS:
            raise WireError(f"the graph has more than {MAX_ITEMS} items", item.stop)

    def graph(self, message: Message) -> RawGraph:
        graph = RawGraph()
        for item in message.fields():
            if item.number == GraphProto.NODE:
                graph.nodes.append(self._node(item))
            elif item.number == GraphProto.PARAMETER:
                graph.nodes.append(self._parameter(item))
            elif item.number == GraphProto.CONSTANT:
                graph.nodes.append(self._constant(item))
            elif item.number == GraphProto.NAME:
                graph.name = item.as_text()
            elif item.number == GraphProto.ID:
                graph.id = item.as_int()
            elif item.number == GraphProto.SOURCE:
                self._count(item)
                graph.sources.append(decode_source(item.as_message()))
        return graph

    def _node(self, parent: Field) -> RawNode:
        self._count(parent)
        node = RawNode(parent.value, KINDS.index("op"))
        for item in parent.as_message().fields():
            if item.number == NodeProto.INPUT:
                self._input(node, item)
            elif item.number == NodeProto.NAME:
                node.key = item.as_text()
            elif item.number == NodeProto.OP_TYPE:
                node.type = item.as_text()
            elif item.number == NodeProto.SCOPE:
                node.scope = item.as_text()
            elif item.number == NodeProto.ATTRIBUTE:
                self._attribute(node, item)
            elif item.number == NodeProto.OUTPUT_TYPE:
                self._outputs(node, item)
            elif item.number == NodeProto.FULL_NAME:
                node.name = item.as_text()
            elif item.number == NodeProto.SOURCE_ADDRESS:
                node.source_address = item.as_text()
            else:
                self._extra(node, item)
        return _named(node)

    def _parameter(self, parent: Field) -> RawNode:
        self._count(parent)
        node = RawNode(parent.value, KINDS.index("parameter"))
        for item in parent.as_message().fields():
            if item.number == ParameterProto.NAME:
                node.key = node.name = item.as_text()
            elif item.number == ParameterProto.TYPE:
                self._outputs(node, item)
            else:
                self._extra(node, item)
        return _named(node)

    def _constant(self, parent: Field) -> RawNode:
        self._count(parent)
        node = RawNode(parent.value, KINDS.index("constant"))
        for item in parent.as_message().fields():
            if item.number == NamedValueProto.KEY:
                node.key = item.as_text()
            elif item.number == NamedValueProto.FULL_NAME:
                node.name = item.as_text()
            elif item.number == NamedValueProto.VALUE:
                value = item.as_message()
                node.attributes.append(("value", value_text(value)))
                node.outputs, node.index = value_spec(value), value_index(value)
            else:
                self._extra(node, item)
        return _named(node)

    def _extra(self, node: RawNode, item: Field) -> None:
        if item.number == ExtraFields.POSITION:
            node.position = item.as_uint()
        elif item.number == ExtraFields.PHASE:
            node.phase = _choice(item, len(PHASES))
        elif item.number == ExtraFields.KIND:
            node.kind = _choice(item, len(KINDS))
        elif item.number == ExtraFields.SOURCES:
            indices = item.as_uints()
            self._count(item, len(indices))
            node.sources += tuple(indices)
        elif item.number == ExtraFields.OP_TYPE:
            node.type = item.as_text()
        elif item.number == ExtraFields.SCOPE:
            node.scope = item.as_text()
        elif item.number == ExtraFields.ATTRIBUTE:
            self._attribute(node, item)
        elif item.number == ExtraFields.INPUT:
            self._input(node, item)
        elif item.number == ExtraFields.OUTPUT_TYPE:
            self._outputs(node, item)

    def _outputs(self, node: RawNode, item: Field) -> None:
        node.outputs = self.parts.specs(item)
        self._count(item, len(node.outputs))

    def _attribute(self, node: RawNode, parent: Field) -> None:
        self._count(parent)
        node.attributes.append(self.parts.attribute(parent))

    def _input(self, node: RawNode, parent: Field) -> None:
        self._count(parent)
        found = RawInput()
        for item in parent.as_message().fields():
            if item.number == InputProto.NAME:
                found.name = item.as_text()
            elif item.number == InputProto.PRODUCER:
                found.producer = item.as_uint() - 1
            elif item.number == InputProto.PRODUCER_NAME:
                found.producer_name = item.as_text()
            elif item.number == InputProto.SLOT:
                found.slot = item.as_int()
            elif item.number == InputProto.SPEC:
                specs = self.parts.specs(item)
                found.spec = specs[0] if specs else None
        node.inputs.append(found)


def _named(node: RawNode) -> RawNode:
    node.name = node.name or node.key
    if not node.name:
        raise WireError("a node has no name", node.at)
    return node


def _choice(item: Field, count: int) -> int:
    if item.as_uint() >= count:
        raise WireError(f"field {item.number} is {item.value}, not below {count}", item.stop)
    return item.value


def decode_source(message: Message) -> Source:
    file = function = code = ""
    line = 0
    for item in message.fields():
        if item.number == schema.SourceProto.FILE:
            file = item.as_text()
        elif item.number == schema.SourceProto.LINE:
            line = item.as_int()
        elif item.number == schema.SourceProto.FUNCTION:
            function = item.as_text()
        elif item.number == schema.SourceProto.CODE:
            code = item.as_text()
    return Source(file, line, function, code)
