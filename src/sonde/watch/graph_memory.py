"""Which tensors of a graph share memory, derived from op types and edges.

In a live training, torch knows it; a dump has only the graph. An in-place op writes to the memory
of its input, a view shares it, every other op allocates its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Final, NamedTuple

from sonde.watch.op_types import (
    ALLOCATING,
    UNFILLED,
    VIEWS,
    WORKSPACES,
    is_in_place,
    slots_in,
)

_MOST_STEPS_BACK: Final = 1000
Shape = tuple[int, ...]
Place = tuple[str, int]
"""A node and the slot of one of its outputs."""


class MemoryNode(NamedTuple):
    """A node: for each input its producer, slot and shape."""

    type: str
    is_leaf: bool
    inputs: Sequence[tuple[str | None, int, Shape]]
    outputs: Sequence[Shape]
    attributes: Sequence[tuple[str, str]] = ()

    @property
    def allocates(self) -> bool:
        """Whether its outputs are memory that no op has filled."""
        return self.type in ALLOCATING or bool(slots_in(self.attributes, UNFILLED))


class GraphMemory:
    """``find`` returns the node of a name; None if the graph does not have it."""

    def __init__(self, find: Callable[[str], MemoryNode | None]) -> None:
        self._find = find
        self._roots: dict[Place, Place] = {}
        self._filled: dict[Place, bool] = {}

    def root(self, name: str, slot: int) -> Place:
        """The leaf, or the output of an op, that the memory of the tensor belongs to."""
        way: list[Place] = []
        place = (name, slot)
        while place not in self._roots:
            way.append(place)
            before = self._shared_with(*place)
            if before is None or before in way:
                self._roots[place] = place
            else:
                place = before
        found = self._roots[place]
        for each in way:
            self._roots[each] = found
        return found

    def _shared_with(self, name: str, slot: int) -> Place | None:
        """The tensor whose memory an op overwrites or views; None if it allocates its own."""
        node = self._find(name)
        if node is None or node.is_leaf:
            return None
        number = slot if is_in_place(node.type) else 0 if node.type in VIEWS else None
        if number is None or number >= len(node.inputs):
            return None
        producer, producer_slot, _ = node.inputs[number]
        return None if producer is None else (producer, producer_slot)

    def is_filled(self, name: str, slot: int) -> bool:
        """Whether an output has values that ops have written: False for memory that was only
        allocated, for views of it, and for workspaces of an op."""
        place = (name, slot)
        known = self._filled.get(place)
        if known is None:
            self._filled[place] = True  # in case the graph has a cycle
            known = self._filled[place] = self._is_filled(name, slot)
        return known

    def _is_filled(self, name: str, slot: int) -> bool:
        node = self._find(name)
        if node is None:
            return True
        if node.type in ALLOCATING or slot in WORKSPACES.get(node.type, ()):
            return False
        if slot in slots_in(node.attributes, UNFILLED):
            return False
        if node.is_leaf or node.type not in VIEWS or not node.inputs:
            return True
        return self.is_input_filled(node.inputs[0])

    def is_input_filled(self, edge: tuple[str | None, int, Shape]) -> bool:
        """``is_filled`` of an input. Memory that is filled in part is not filled as a whole."""
        producer, slot, shape = edge
        if producer is None:
            return True
        if not self.is_filled(producer, slot):
            return False
        node = self._find(producer)
        if node is None or slot >= len(node.outputs) or node.outputs[slot] == shape:
            return True
        return not self._has_gaps(producer, slot)

    def _has_gaps(self, name: str, slot: int) -> bool:
        """Whether the memory of an output has parts that no op has filled yet."""
        root, root_slot = self.root(name, slot)
        made = self._find(root)
        if made is None or not made.allocates or root_slot >= len(made.outputs):
            return False
        size = prod(made.outputs[root_slot])
        place: Place | None = (name, slot)
        for _ in range(_MOST_STEPS_BACK):
            node = None if place is None else self._find(place[0])
            if place is None or node is None or node.allocates:
                return True
            is_whole = place[1] < len(node.outputs) and prod(node.outputs[place[1]]) >= size
            if is_whole and is_in_place(node.type):
                return False
            place = self._shared_with(*place)
        return True
