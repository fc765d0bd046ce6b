"""An index of one graph: nodes by name, line and scope, edges as arrays. Built once per graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sonde.core.errors import SondeError, UsageError
from sonde.core.graph import but_gradients
from sonde.core.operators.patterns import NamedOp, OpPattern, parts_of
from sonde.core.operators.suggestions import did_you_mean, near_names, suggestion
from sonde.core.text.terminal_text import quoted
from sonde.server.graph.scopes import Ints, ScopeTree
from sonde.watch.graph_memory import GraphMemory, MemoryNode
from sonde.wire.shapes import Node, TensorName, TensorType


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
    ``scopes``, ``scope_of`` and ``ancestors`` are those of ``ScopeTree``."""

    def __init__(self, graph: int, name: str, nodes: Sequence[Node], *, whole: bool = True) -> None:
        self.graph = graph
        self.name = name
        self.nodes = tuple(nodes)
        self.whole = whole
        self.numbers = {node.name: number for number, node in enumerate(self.nodes)}
        self.edges = _edges(self.nodes, self.numbers)
        tree = ScopeTree(self.nodes, self.edges.source, self.edges.target)
        self.scopes, self._scope_numbers = tree.scopes, tree.numbers
        self.scope_of, self.ancestors = tree.scope_of, tree.ancestors

    def __len__(self) -> int:
        return len(self.nodes)

    @cached_property
    def memory(self) -> GraphMemory:
        """Which tensors share memory, and which have been filled."""
        return GraphMemory(self._memory_node)

    def _memory_node(self, name: str) -> MemoryNode | None:
        number = self.numbers.get(name)
        if number is None:
            return None
        node = self.nodes[number]
        return MemoryNode(
            node.type,
            node.kind != "op",
            [(each.producer, each.slot, each.type.shape) for each in node.inputs],
            [each.shape for each in node.outputs],
            node.attributes,
        )

    def node(self, name: str) -> Node:
        return self.nodes[self.number(name)]

    def number(self, name: str) -> int:
        """The place of the node called ``name``; UsageError if there is none."""
        found = self.numbers.get(name)
        if found is None:
            raise UsageError(
                f"no op {quoted(name)} in graph {self.graph}{self.suggestion(name)}",
                slug="no-such-op",
            )
        return found

    def named_ops(self) -> list[NamedOp]:
        """The nodes, as far as patterns name them."""
        return [NamedOp(node.name, node.type, node.scope, node.kind != "op") for node in self.nodes]

    def suggestion(self, text: str) -> str:
        """The end of a sentence with the names that are like ``text``, from ``; `` on, or empty."""
        try:
            pattern = OpPattern.parse(text)
        except SondeError:
            return ""
        # Before the first step has ended the types of ops are not known, but classes are.
        suggest = suggestion if self.whole or text[:1].isupper() else near_names
        return suggest(pattern, self.named_ops())

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
            hint = did_you_mean(self._scopes_called(path)) or self.suggestion(f"{path.strip('/')}/")
            raise UsageError(
                f"no scope {quoted(path)} in graph {self.graph}{hint}", slug="no-such-scope"
            )
        return found

    def _scopes_called(self, path: str) -> list[str]:
        """The scopes whose last part is that of ``path``, or has it as the name or class."""
        last = path.strip("/").rpartition("/")[2]
        parts = ((scope.path, parts_of(scope.path.rstrip("/"))) for scope in self.scopes)
        return but_gradients(path for path, found in parts if found and last in found[-1])

    def consumers(self, name: str) -> tuple[tuple[int, str], ...]:
        """Output slot and reader, in execution order."""
        places = np.flatnonzero(self.edges.source == self.number(name))
        pairs = ((int(self.edges.slot[p]), self.nodes[self.edges.target[p]].name) for p in places)
        return tuple(dict.fromkeys(pairs))

    def hits_by_part(self, hits: Mapping[str, int]) -> Counter[int]:
        """The hits of each node and, as ``~scope``, of each scope around it."""
        counts: Counter[int] = Counter()
        for name, count in hits.items():
            number = self.numbers.get(name)
            if number is not None:
                above = self.ancestors[:, number]
                for part in (number, *(~above[above >= 0]).tolist()):
                    counts[part] += count
        return counts

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

    def span(self, part: int) -> tuple[Node, Node]:
        """The first and the last op of a scope (``~scope``), if it has any, or a node twice."""
        if part >= 0:
            return self.nodes[part], self.nodes[part]
        scope = self.scopes[~part]
        if scope.first_op < 0:
            return self.nodes[scope.first], self.nodes[scope.first]
        return self.nodes[scope.first_op], self.nodes[scope.last_op]


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
