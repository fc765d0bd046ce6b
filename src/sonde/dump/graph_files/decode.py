"""Decodes the bytes of a ``.pb`` graph file; ``pb`` resolves the names in the result."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeVar

from sonde.core.files.protobuf_wire import Field, Message, WireError
from sonde.core.graph import Kind, Phase, Source, TensorSpec
from sonde.dump.graph_files.schema import KINDS, PHASES, declared_fields, read
from sonde.dump.graph_files.values import decode_specs, value_index, value_spec, value_text

Choice = TypeVar("Choice")

MAX_ITEMS = 4_000_000
"""Nodes, inputs, attributes, outputs and sources of one file; keeps memory within ~1 GB."""
_SHORT = 256
_MOST_KEPT = 10_000
_NODE_KINDS: dict[str, Kind] = {
    "NodeProto": "op",
    "ParameterProto": "parameter",
    "NamedValueProto": "constant",
}


@dataclass(slots=True)
class RawInput:
    """One ``InputProto``; ``producer`` is a position, in files by Sonde."""

    name: str
    producer: int | None
    producer_name: str | None
    slot: int
    spec: TensorSpec | None


@dataclass(slots=True)
class RawNode:
    """A ``NodeProto``, ``ParameterProto`` or ``NamedValueProto``; ``key`` is what inputs refer to.

    ``at`` is its byte in the file. ``position`` is None in files by MindSpore; ``index`` is the
    value of an integer constant.
    """

    at: int
    kind: Kind
    key: str
    name: str
    type: str
    scope: str
    phase: Phase
    position: int | None
    index: int | None
    inputs: list[RawInput]
    outputs: tuple[TensorSpec, ...]
    attributes: list[tuple[str, str]]
    sources: list[int]
    source_address: str


@dataclass(slots=True)
class RawGraph:
    """A ``GraphProto``; ``id`` is None in files by MindSpore."""

    id: int | None = None
    name: str = ""
    nodes: list[RawNode] = field(default_factory=list)
    sources: list[Source] = field(default_factory=list)


def decode_raw(data: bytes) -> RawGraph:
    """The graph of a ``ModelProto``; WireError, with the byte, if the data are damaged."""
    graph = read(Message(data, 0, len(data)), "ModelProto").get("graph")
    if graph is None:
        raise WireError("there is no graph", 0)
    return _Decoder().graph(graph.as_message())


@dataclass(slots=True)
class _Decoder:
    """Decodes one graph. Equal bytes of shapes and attributes, which are common, once."""

    items: int = 0
    _known_specs: dict[bytes, tuple[TensorSpec, ...]] = field(default_factory=dict)
    _known_attributes: dict[bytes, tuple[str, str]] = field(default_factory=dict)

    def graph(self, message: Message) -> RawGraph:
        graph = RawGraph()
        for declared, item in declared_fields(message, "GraphProto"):
            if declared.type in _NODE_KINDS:
                graph.nodes.append(self._node(item, declared.type))
            elif declared.name == "name":
                graph.name = item.as_text()
            elif declared.name == "id":
                graph.id = item.as_int()
            elif declared.name == "source":
                self._count(item)
                graph.sources.append(_source(read(item.as_message(), "SourceProto")))
        return graph

    def _node(self, item: Field, message_type: str) -> RawNode:
        self._count(item)
        fields = read(item.as_message(), message_type)
        key = fields.get("key") or fields.get("name", "")
        name = fields.get("full_name") or key
        if not name:
            raise WireError("a node has no name", item.value)
        node = RawNode(
            at=item.value,
            kind=_choice(fields.get("kind"), KINDS, _NODE_KINDS[message_type], item),
            key=key,
            name=name,
            type=fields.get("op_type", ""),
            scope=fields.get("scope", ""),
            phase=_choice(fields.get("phase"), PHASES, "forward", item),
            position=fields.get("position"),
            index=None,
            inputs=[self._input(each) for each in fields.get("input", ())],
            outputs=(),
            attributes=[self._attribute(each) for each in fields.get("attribute", ())],
            sources=fields.get("sources", []),
            source_address=fields.get("source_address", ""),
        )
        if "value" in fields:
            value = fields["value"].as_message()
            node.attributes.append(("value", value_text(value)))
            node.outputs, node.index = value_spec(value), value_index(value)
        type_ = fields.get("output_type") or fields.get("type")
        if type_ is not None:
            node.outputs = self._specs(type_)
        self._count(item, len(node.outputs) + len(node.sources))
        return node

    def _count(self, item: Field, number: int = 1) -> None:
        self.items += number
        if self.items > MAX_ITEMS:
            raise WireError(f"the graph has more than {MAX_ITEMS} items", item.stop)

    def _specs(self, item: Field) -> tuple[TensorSpec, ...]:
        raw = item.as_bytes()
        found = self._known_specs.get(raw)
        if found is None:
            found = decode_specs(item.as_message())
            if len(raw) <= _SHORT and len(self._known_specs) < _MOST_KEPT:
                self._known_specs[raw] = found
        return found

    def _attribute(self, item: Field) -> tuple[str, str]:
        self._count(item)
        raw = item.as_bytes()
        found = self._known_attributes.get(raw)
        if found is None:
            fields = read(item.as_message(), "AttributeProto")
            value = fields.get("value")
            text = "" if value is None else value_text(value.as_message())
            found = (fields.get("name", ""), text)
            if len(raw) <= _SHORT and len(self._known_attributes) < _MOST_KEPT:
                self._known_attributes[raw] = found
        return found

    def _input(self, item: Field) -> RawInput:
        self._count(item)
        fields = read(item.as_message(), "InputProto")
        spec = self._specs(fields["spec"]) if "spec" in fields else ()
        return RawInput(
            fields.get("name", ""),
            fields["producer"] - 1 if "producer" in fields else None,
            fields.get("producer_name"),
            fields.get("slot", 0),
            spec[0] if spec else None,
        )


def _choice(
    number: int | None, choices: tuple[Choice, ...], default: Choice, item: Field
) -> Choice:
    if number is None:
        return default
    if number >= len(choices):
        raise WireError(f"{number} is not one of {', '.join(map(str, choices))}", item.stop)
    return choices[number]


def _source(fields: dict[str, Any]) -> Source:
    texts = {name: fields.get(name, "") for name in ("file", "function", "code")}
    return Source(line=fields.get("line", 0), **texts)
