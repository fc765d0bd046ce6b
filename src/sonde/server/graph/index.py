"""An index of one graph: scopes as a tree, edges as arrays. Built once per graph."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sonde.core.errors import UsageError
from sonde.wire.shapes import Node, TensorName, TensorType

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


@dataclass(frozen=True, slots=True, eq=False)
class Edges:
    """Data from slot ``slot`` of node ``source`` to node ``target``; ``kind`` is its type."""

    source: Ints
    target: Ints
    slot: Ints
    kind: Ints
    kinds: tuple[TensorType, ...]


class GraphIndex:
    """The nodes of one graph of one rank, in execution order; not changed after it is made.

    A leaf without its own scope belongs to the innermost scope that contains all its readers.
    """

    def __init__(self, graph: int, name: str, nodes: Sequence[Node], *, whole: bool = True) -> None:
        self.graph = graph
        self.name = name
        self.nodes = tuple(nodes)
        self.whole = whole
        self.numbers = {node.name: number for number, node in enumerate(self.nodes)}
        self.edges = _edges(self.nodes, self.numbers)
        self.scopes = [GraphScope("", "", -1, 0)]
        self._scope_numbers = {"": 0}
        self.scope_of = self._place()
        self.ancestors = self._ancestors()
        self._describe()

    def __len__(self) -> int:
        return len(self.nodes)

    def node(self, name: str) -> Node:
        return self.nodes[self.number(name)]

    def number(self, name: str) -> int:
        """The place of the node called ``name``; UsageError if there is none."""
        found = self.numbers.get(name)
        if found is None:
            raise UsageError(f"no op {name!r} in graph {self.graph}", slug="no-such-op")
        return found

    def label(self, number: int) -> str:
        """The name of a node inside its scope: the last part of an op's name; the name of a leaf
        without that of the network in whose scope it is shown."""
        name = self.nodes[number].name.rpartition("/")[2]
        place = int(self.scope_of[number])
        while place > 0 and self.nodes[number].kind != "op":
            scope = self.scopes[place]
            if name.startswith(f"{scope.label}."):
                return name.removeprefix(f"{scope.label}.")
            place = scope.parent
        return name

    def dtype(self, tensor: TensorName) -> str | None:
        """The element type of a tensor; None if the graph does not contain it."""
        number = self.numbers.get(tensor.op)
        if number is None:
            return None
        node = self.nodes[number]
        types = node.outputs if tensor.io == "output" else [edge.type for edge in node.inputs]
        return types[tensor.slot].dtype if 0 <= tensor.slot < len(types) else None

    def scope(self, path: str) -> int:
        """The number of the scope at ``path``, with or without its last ``/``."""
        found = self._scope_numbers.get(path if not path or path.endswith("/") else f"{path}/")
        if found is None:
            raise UsageError(f"no scope {path!r} in graph {self.graph}", slug="no-such-scope")
        return found

    def consumers(self, name: str) -> tuple[tuple[int, str], ...]:
        """Output slot and reader, in execution order."""
        places = np.flatnonzero(self.edges.source == self.number(name))
        pairs = ((int(self.edges.slot[p]), self.nodes[self.edges.target[p]].name) for p in places)
        return tuple(dict.fromkeys(pairs))

    @cached_property
    def lines(self) -> Mapping[tuple[str, int], tuple[int, ...]]:
        """Nodes by the lines of code in their stacks, lines in the order of their first node."""
        found: dict[tuple[str, int], dict[int, None]] = {}
        for number, node in enumerate(self.nodes):
            for source in node.sources:
                found.setdefault((source.file, source.line), {})[number] = None
        return {line: tuple(numbers) for line, numbers in found.items()}

    @cached_property
    def codes(self) -> Mapping[tuple[str, int], str]:
        """The text of each line of ``lines``, as the program had it."""
        return {(s.file, s.line): s.code for node in self.nodes for s in node.sources}

    @cached_property
    def folded(self) -> tuple[str, ...]:
        """The names in lower case, for searches."""
        return tuple(node.name.lower() for node in self.nodes)

    def _place(self) -> Ints:
        placed = np.empty(len(self.nodes), np.int32)
        unplaced: list[int] = []
        for number, node in enumerate(self.nodes):
            if not node.scope and node.kind != "op":
                unplaced.append(number)
                placed[number] = 0
            else:
                placed[number] = self._scope_number(node.scope)
        if unplaced:
            self._place_leaves(unplaced, placed)
        return placed

    def _place_leaves(self, unplaced: Sequence[int], placed: Ints) -> None:
        wanted = set(unplaced)
        homes: dict[int, int] = {}
        pairs = zip(self.edges.source.tolist(), self.edges.target.tolist(), strict=True)
        for source, target in pairs:
            if source in wanted:
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
        found = self._scope_numbers.get(path)
        if found is not None:
            return found
        above, _, label = path[:-1].rpartition("/")
        parent = self._scope_number(above)
        if self.scopes[parent].depth >= MOST_DEPTH:
            self._scope_numbers[path] = parent
            return parent
        number = len(self.scopes)
        self.scopes.append(GraphScope(path, label, parent, self.scopes[parent].depth + 1))
        self._scope_numbers[path] = number
        return number

    def _ancestors(self) -> Ints:
        """Row d: the scope at depth d that contains each node, -1 for a node that is less deep."""
        depth = max(scope.depth for scope in self.scopes)
        table = np.full((depth + 2, len(self.scopes)), -1, np.int32)
        for number, scope in enumerate(self.scopes):  # Parents come before their children.
            if scope.parent >= 0:
                table[:, number] = table[:, scope.parent]
            table[scope.depth, number] = number
        return table[:, self.scope_of]

    def _describe(self) -> None:
        """Children in execution order, counts and structure, from the innermost scopes outwards."""
        for number, home in enumerate(self.scope_of.tolist()):
            self._enter(home, number)
            self.scopes[home].children.append(number)
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

    def _enter(self, home: int, number: int) -> None:
        scope, node = self.scopes[home], self.nodes[number]
        if node.kind == "op":
            scope.ops += 1
            scope.first_op = _earlier(scope.first_op, number)
            scope.last_op = max(scope.last_op, number)
        scope.first = _earlier(scope.first, number)

    def span(self, part: int) -> tuple[Node, Node]:
        """The first and the last op of a scope (``~scope``), if it has any, or a node twice."""
        if part >= 0:
            return self.nodes[part], self.nodes[part]
        scope = self.scopes[~part]
        if scope.first_op < 0:
            return self.nodes[scope.first], self.nodes[scope.first]
        return self.nodes[scope.first_op], self.nodes[scope.last_op]

    def _first(self, child: int) -> tuple[int, int]:
        return (child, 1) if child >= 0 else (self.scopes[~child].first, 0)

    def _shape(self, child: int) -> tuple[str, int | str]:
        if child >= 0:
            node = self.nodes[child]
            return node.type, node.phase
        return self.scopes[~child].repeats_as


def _earlier(one: int, other: int) -> int:
    """The smaller of two node numbers; a negative number means none."""
    return max(one, other) if min(one, other) < 0 else min(one, other)


def _edges(nodes: Sequence[Node], numbers: Mapping[str, int]) -> Edges:
    rows: list[tuple[int, int, int, int]] = []
    kinds: dict[TensorType, int] = {}
    for target, node in enumerate(nodes):
        for edge in node.inputs:
            source = -1 if edge.producer is None else numbers.get(edge.producer, -1)
            if source >= 0:
                kind = kinds.setdefault(edge.type, len(kinds))
                rows.append((source, target, edge.slot, kind))
    table = np.array(rows, np.int32).reshape(-1, 4)
    columns = [np.ascontiguousarray(column) for column in table.T]
    return Edges(columns[0], columns[1], columns[2], columns[3], tuple(kinds))
