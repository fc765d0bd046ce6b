"""The scopes of one graph as a tree, and where each node is in it."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sonde.wire.shapes import Node

MOST_DEPTH: Final = 48
"""Scopes deeper than this are merged into their parent."""

Ints = NDArray[np.int32]
_NUMBERS = re.compile(r"\d+")


@dataclass(slots=True)
class GraphScope:
    """A box of the tree. ``path`` ends with ``/``, the root's is empty. ``children``: numbers of
    nodes (as they are) and of scopes (below zero, ``~scope``), in execution order. ``first``: its
    first node, also a parameter that it reads. ``first_op``, ``last_op``: -1 without ops."""

    path: str
    label: str
    parent: int
    depth: int
    children: list[int] = field(default_factory=list)
    ops: int = 0
    first: int = -1
    first_op: int = -1
    last_op: int = -1
    structure: int = 0

    @property
    def repeats_as(self) -> tuple[str, int]:
        """Equal for scopes that are copies of each other: the name without numbers, and the
        structure of the content."""
        return _NUMBERS.sub("", self.label), self.structure


class ScopeTree:
    """The scopes of ``nodes``, which are in execution order; ``sources`` and ``targets`` are the
    ends of their edges. Not changed after it is made.

    ``scopes``: the root first, parents before their children. ``scope_of``: the scope of each node;
    a leaf without its own scope belongs to the innermost scope that contains all its readers.
    ``ancestors``, row d: the scope at depth d that contains each node, -1 for a node that is less
    deep.

    ``homes``: the scope of each node, in place of its own. ``folded``: nodes that are in no list of
    children. ``unwrapped``: paths of scopes whose content is shown in their parent.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        sources: Ints,
        targets: Ints,
        *,
        homes: Sequence[str] | None = None,
        folded: NDArray[np.bool_] | None = None,
        unwrapped: Collection[str] = (),
    ) -> None:
        self._nodes = nodes
        self._homes = [node.scope for node in nodes] if homes is None else homes
        self._folded = np.zeros(len(nodes), bool) if folded is None else folded
        self._unwrapped = unwrapped
        self.scopes = [GraphScope("", "", -1, 0)]
        self.numbers = {"": 0}
        self.scope_of = self._place(sources, targets)
        self.ancestors = self._ancestors()
        self._describe()

    def _place(self, sources: Ints, targets: Ints) -> Ints:
        placed = np.empty(len(self._nodes), np.int32)
        unplaced: list[int] = []
        known: dict[str, int] = {}
        for number, (node, home) in enumerate(zip(self._nodes, self._homes, strict=True)):
            if not home and node.kind != "op":
                unplaced.append(number)
                placed[number] = 0
                continue
            found = known.get(home)
            if found is None:
                found = known[home] = self._scope_number(home)
            placed[number] = found
        if unplaced:
            self._place_leaves(set(unplaced), placed, sources, targets)
        return placed

    def _place_leaves(
        self, unplaced: Collection[int], placed: Ints, sources: Ints, targets: Ints
    ) -> None:
        homes: dict[int, int] = {}
        for source, target in zip(sources.tolist(), targets.tolist(), strict=True):
            if source in unplaced:
                scope = int(placed[target])
                homes[source] = self._common(homes[source], scope) if source in homes else scope
        for number, scope in homes.items():
            placed[number] = scope

    def _common(self, a: int, b: int) -> int:
        while a != b:
            if self.scopes[a].depth >= self.scopes[b].depth:
                a = self.scopes[a].parent
            else:
                b = self.scopes[b].parent
        return a

    def _scope_number(self, name: str) -> int:
        path = f"{name.strip('/')}/" if name else ""
        found = self.numbers.get(path)
        if found is not None:
            return found
        above, _, label = path[:-1].rpartition("/")
        parent = self._scope_number(above)
        if self.scopes[parent].depth >= MOST_DEPTH or path in self._unwrapped:
            self.numbers[path] = parent
            return parent
        number = len(self.scopes)
        self.scopes.append(GraphScope(path, label, parent, self.scopes[parent].depth + 1))
        self.numbers[path] = number
        return number

    def _ancestors(self) -> Ints:
        depth = max(scope.depth for scope in self.scopes)
        table = np.full((depth + 2, len(self.scopes)), -1, np.int32)
        for number, scope in enumerate(self.scopes):  # Parents come before their children.
            if scope.parent >= 0:
                table[:, number] = table[:, scope.parent]
            table[scope.depth, number] = number
        return table[:, self.scope_of]

    def _describe(self) -> None:
        """Children in execution order, counts and structure, from the innermost scopes outwards."""
        folded = set(np.flatnonzero(self._folded).tolist())
        for number, home in enumerate(self.scope_of.tolist()):
            if number not in folded:
                self._enter(self.scopes[home], number)
        for number in range(len(self.scopes) - 1, -1, -1):
            scope = self.scopes[number]
            scope.children.sort(key=self._first)
            scope.structure = hash(tuple(self._shape(child) for child in scope.children))
            if scope.parent >= 0:
                parent = self.scopes[scope.parent]
                parent.children.append(~number)
                parent.ops += scope.ops
                parent.first = _earlier(parent.first, scope.first)
                parent.first_op = _earlier(parent.first_op, scope.first_op)
                parent.last_op = max(parent.last_op, scope.last_op)

    def _enter(self, scope: GraphScope, number: int) -> None:
        """Add a node that comes after all that were added."""
        if self._nodes[number].kind == "op":
            scope.ops += 1
            scope.last_op = number
            if scope.first_op < 0:
                scope.first_op = number
        if scope.first < 0:
            scope.first = number
        scope.children.append(number)

    def _first(self, child: int) -> tuple[int, int]:
        return (child, 1) if child >= 0 else (self.scopes[~child].first, 0)

    def _shape(self, child: int) -> tuple[str, int | str]:
        if child >= 0:
            node = self._nodes[child]
            return node.type, node.phase
        return self.scopes[~child].repeats_as


def _earlier(one: int, other: int) -> int:
    """The smaller of two node numbers; a negative number means none."""
    return max(one, other) if min(one, other) < 0 else min(one, other)
