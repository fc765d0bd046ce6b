"""Encodes a Graph as the bytes of a ``.pb`` graph file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sonde.core.graph import Edge, Graph, OpNode, Source
from sonde.dump.graph_files.schema import KINDS, PHASES, encode
from sonde.dump.graph_files.source_lines import source_text
from sonde.dump.graph_files.values import encode_specs, encode_text_value


def encode_graph(graph: Graph) -> bytes:
    """The bytes of a ``ModelProto``; the same graph always gives the same bytes."""
    encoded = _Encoder.of(graph).encode()
    return encode("ModelProto", ir_version=1, domain="sonde", model_version=1, graph=encoded)


@dataclass(frozen=True, slots=True)
class _Encoder:
    """Encodes one graph; ``keys`` are the names that inputs refer to.

    Ops of a graph have much in common: what was encoded once is remembered. ``_lines`` are of the
    tuples of lines that ops share, by their identity.
    """

    graph: Graph
    positions: dict[str, int]
    keys: tuple[str, ...]
    sources: dict[Source, int]
    _attributes: dict[tuple[str, str], bytes] = field(default_factory=dict)
    _lines: dict[int, tuple[str, tuple[int, ...]]] = field(default_factory=dict)

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
        graph = self.graph
        parts = [encode("GraphProto", name=graph.name, root_name=str(graph.id), id=graph.id)]
        for position, node in enumerate(graph):
            if node.kind == "op":
                parts.append(encode("GraphProto", node=self._op(position, node)))
            elif node.kind == "constant":
                parts.append(encode("GraphProto", const_vals=self._constant(position, node)))
            else:
                parts.append(encode("GraphProto", parameters=self._parameter(position, node)))
        sources = [encode("SourceProto", **source.fields()) for source in self.sources]
        parts.append(encode("GraphProto", source=sources))
        return b"".join(parts)

    def _op(self, position: int, node: OpNode) -> bytes:
        return encode(
            "NodeProto",
            input=[self._input(edge) for edge in node.inputs],
            name=self.keys[position],
            op_type=node.type,
            scope=node.scope,
            attribute=self._attributes_of(node),
            output_type=encode_specs(node.outputs),
            full_name=node.name,
            source_address=self._lines_of(node)[0] or None,
            **self._order(position, node),
        )

    def _parameter(self, position: int, node: OpNode) -> bytes:
        return encode(
            "ParameterProto",
            name=node.name,
            type=encode_specs(node.outputs),
            **self._order(position, node),
            **self._leaf(node),
        )

    def _constant(self, position: int, node: OpNode) -> bytes:
        return encode(
            "NamedValueProto",
            key=self.keys[position],
            full_name=node.name,
            **self._order(position, node),
            **self._leaf(node),
            output_type=encode_specs(node.outputs),
        )

    def _order(self, position: int, node: OpNode) -> dict[str, Any]:
        """Sonde's own fields that every node has."""
        return {
            "position": position,
            "phase": PHASES.index(node.phase),
            "kind": KINDS.index(node.kind),
            "sources": self._lines_of(node)[1] or None,
        }

    def _leaf(self, node: OpNode) -> dict[str, Any]:
        """Sonde's own fields that leaves have in addition."""
        return {
            "op_type": node.type,
            "scope": node.scope,
            "attribute": self._attributes_of(node),
            "input": [self._input(edge) for edge in node.inputs],
        }

    def _input(self, edge: Edge) -> bytes:
        position = None if edge.producer is None else self.positions.get(edge.producer)
        outputs = () if position is None else self.graph.nodes[position].outputs
        is_as_produced = 0 <= edge.slot < len(outputs) and outputs[edge.slot] == edge.spec
        return encode(
            "InputProto",
            name=edge.producer or "" if position is None else self.keys[position],
            type=0,
            producer=None if position is None else position + 1,
            producer_name=edge.producer if position is None else None,
            slot=edge.slot or None,
            spec=None if is_as_produced else encode_specs((edge.spec,)),
        )

    def _attributes_of(self, node: OpNode) -> list[bytes]:
        known = self._attributes
        for pair in node.attributes:
            if pair not in known:
                value = encode_text_value(pair[1])
                known[pair] = encode("AttributeProto", name=pair[0], value=value)
        return [known[pair] for pair in node.attributes]

    def _lines_of(self, node: OpNode) -> tuple[str, tuple[int, ...]]:
        """The lines of a node as text, and their positions in the graph's table of lines."""
        known = self._lines.get(id(node.sources))
        if known is None:
            text = "".join(f"      {source_text(source)}\n" for source in node.sources)
            positions = tuple(self.sources[source] for source in node.sources)
            known = self._lines[id(node.sources)] = text, positions
        return known
