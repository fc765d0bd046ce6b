"""Where the NaN and Inf of a dumped step come from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sonde.core.keys import Io
from sonde.server.dump_shelf import Listing
from sonde.server.dump_values import DumpTensor
from sonde.server.graph_index import GraphIndex
from sonde.wire.shapes import Node, Part

MOST_IN_CHAIN: Final = 100


@dataclass(frozen=True, slots=True)
class Trace:
    """The part an op plays, the op that made the values, the ops from there on."""

    part: Part
    origin: str | None
    chain: tuple[str, ...]


class StepOrigins:
    """The non-finite tensors of one step, looked at when one is asked for."""

    def __init__(self, listing: Listing, graph: GraphIndex | None) -> None:
        self._listing = listing
        self._graph = graph
        self._known: dict[tuple[str, Io, int], bool | None] = {}

    def is_bad(self, op: str, io: Io, slot: int) -> bool | None:
        """Whether a tensor is non-finite; None if the dump does not tell."""
        place = (op, io, slot)
        if place not in self._known:
            stored = self._listing.find(*place)
            self._known[place] = (
                None if stored is None else DumpTensor(self._listing, stored).non_finite()
            )
        return self._known[place]

    def inputs_finite(self, op: str) -> bool | None:
        """Whether all inputs of an op were finite; None if the dump does not tell."""
        node = self._node(op)
        if node is None:
            return None
        found = [self._input_is_bad(node, slot) for slot in range(len(node.inputs))]
        if any(found):
            return False
        return None if None in found else True

    def trace(self, op: str) -> Trace:
        """Of an op with a non-finite output: whether it made it, who did, and the way from there.

        Goes back through non-finite inputs to an op, or a leaf, that has none. A parameter that
        was finite when the step read it got its values from the optimizer.
        """
        node = self._node(op)
        if node is None:
            return Trace("other", None, ())
        chain = [op]
        seen = {op}
        while (before := self._before(node)) is not None and before.name not in seen:
            chain.append(before.name)
            seen.add(before.name)
            node = before
        chain.reverse()
        half = MOST_IN_CHAIN // 2
        shown = chain if len(chain) <= MOST_IN_CHAIN else [*chain[:half], *chain[-half:]]
        part: Part = "producer" if chain[0] == op else "carrier"
        return Trace(part, chain[0], tuple(shown))

    def _before(self, node: Node) -> Node | None:
        return self._bad_producer(node) if node.kind == "op" else self._update(node)

    def _update(self, leaf: Node) -> Node | None:
        """The optimizer's op that spoiled a parameter which the step had read as finite."""
        if self._graph is None or leaf.kind != "parameter":
            return None
        reads = [
            (self._graph.node(name), slot)
            for name in dict.fromkeys(name for _, name in self._graph.consumers(leaf.name))
            for slot, edge in enumerate(self._graph.node(name).inputs)
            if edge.producer == leaf.name
        ]
        early = [self.is_bad(n.name, "input", slot) for n, slot in reads if n.phase != "optimizer"]
        if any(early) or (False not in early and not self._is_late(leaf, reads)):
            return None
        updates = [node for node, _ in reads if node.phase == "optimizer"]
        bad = [node for node in updates if self._bad_producer(node, leaf.name) is not None]
        return bad[0] if bad else None

    def _is_late(self, leaf: Node, reads: Sequence[tuple[Node, int]]) -> bool:
        """Whether the dump has the parameter as it was after the step: MindSpore's has."""
        stored = self._listing.find(leaf.name, "output", 0)
        readers = [self._listing.of_op(node.name) for node, _ in reads]
        first = min((each[0].order for each in readers if each), default=None)
        return stored is not None and first is not None and stored.order > first

    def _node(self, op: str) -> Node | None:
        if self._graph is None or op not in self._graph.numbers:
            return None
        return self._graph.node(op)

    def _bad_producer(self, node: Node, but: str = "") -> Node | None:
        """The earliest node, but for ``but``, that gave ``node`` something non-finite."""
        found: list[Node] = []
        for slot, edge in enumerate(node.inputs):
            producer = self._node(edge.producer) if edge.producer is not None else None
            if producer is None or producer.name == but or producer.order >= node.order:
                continue
            if self._input_is_bad(node, slot) and not self._is_spoiled_later(producer, node):
                found.append(producer)
        if node.phase == "optimizer":
            # What it updates in place may have been written down after the update.
            found = [each for each in found if each.kind == "op"] or found
        return min(found, key=lambda each: each.order, default=None)

    def _is_spoiled_later(self, leaf: Node, reader: Node) -> bool:
        """A parameter that is non-finite only after the optimizer has not spoiled its readers."""
        if leaf.kind != "parameter" or reader.phase == "optimizer":
            return False
        return self._update(leaf) is not None

    def _input_is_bad(self, node: Node, slot: int) -> bool | None:
        own = self.is_bad(node.name, "input", slot)
        if own is not None:
            return own
        edge = node.inputs[slot]
        return None if edge.producer is None else self.is_bad(edge.producer, "output", edge.slot)
