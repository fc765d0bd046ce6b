"""An index of one graph: nodes by name, line and scope, edges as arrays. Built once per graph."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from copy import copy
from functools import cached_property
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from sonde.core.errors import SondeError, UsageError
from sonde.core.graph import COMPILED, GRADIENTS, but_gradients
from sonde.core.operators.patterns import NamedOp, OpPattern, parts_of
from sonde.core.operators.suggestions import did_you_mean, near_names, suggestion
from sonde.core.text.terminal_text import quoted
from sonde.server.graph.edges import Edges, edges_of
from sonde.server.graph.folding import edges_past, folded_nodes, passed_input
from sonde.server.graph.labels import leaf_label
from sonde.server.graph.scopes import GraphScope, Ints, ScopeTree
from sonde.server.graph.step_parts import StepFunction, step_functions
from sonde.watch.graph_memory import GraphMemory, MemoryNode
from sonde.wire.shapes import GraphDetail, InputEdge, Node, TensorName

_TOP: Final = "Default"
_UNWRAPPED: Final = frozenset(("Default/", "Gradients/Default/"))
"""Scopes that contain all others of a phase, and so say nothing."""


def has_compiled_code(nodes: Sequence[Node]) -> bool:
    """Whether some of the nodes are ops of code that ``torch.compile`` compiled."""
    return any(name == COMPILED for node in nodes for name, _ in node.attributes)


class GraphIndex:
    """The nodes of one graph of one rank, in execution order; not changed after it is made. Used by
    several threads: what takes long is computed when it is first asked for, once."""

    def __init__(self, graph: int, name: str, nodes: Sequence[Node], *, whole: bool = True) -> None:
        self.graph = graph
        self.name = name
        self.nodes = tuple(nodes)
        self.whole = whole
        self.numbers = {node.name: number for number, node in enumerate(self.nodes)}
        self.edges = edges_of(self.nodes, self.numbers)
        self.hidden = np.zeros(len(self.nodes), bool)
        self.functions: Mapping[str, StepFunction] = {}
        self.is_summary = False
        self._lock = threading.RLock()
        self._known_tree: ScopeTree | None = None
        self._known_summary: GraphIndex | None = None

    @cached_property
    def is_compiled(self) -> bool:
        return has_compiled_code(self.nodes)

    @property
    def tree(self) -> ScopeTree:
        """The scopes, and where each node is in them."""
        if self._known_tree is None:
            with self._lock:
                if self._known_tree is None:
                    self._known_tree = self._built_tree()
        return self._known_tree

    @property
    def scopes(self) -> list[GraphScope]:
        return self.tree.scopes

    @property
    def scope_of(self) -> Ints:
        return self.tree.scope_of

    @property
    def ancestors(self) -> Ints:
        return self.tree.ancestors

    def seen_as(self, view: GraphDetail) -> GraphIndex:
        """The graph with as many nodes as ``view`` shows."""
        return self if view == "everything" else self.summary

    @property
    def summary(self) -> GraphIndex:
        """The same graph without folded nodes (``hidden``), with scopes for the functions of the
        step (``functions``, by path), and without the scopes that contain all others."""
        if self._known_summary is None:
            with self._lock:
                if self._known_summary is None:
                    self._known_summary = self._built_summary()
        return self._known_summary

    def _built_summary(self) -> GraphIndex:
        found = copy(self)
        found.is_summary = True
        found._known_tree = None
        found.hidden = folded_nodes(self.nodes, self.edges)
        found.edges = edges_past(self.nodes, self.edges, found.hidden)
        functions = step_functions(self.nodes, found.hidden.tolist())
        found.functions = {f"{each.scope}/": each for each in functions}
        return found

    def _built_tree(self) -> ScopeTree:
        edges = self.edges
        if not self.is_summary:
            return ScopeTree(self.nodes, edges.source, edges.target)
        homes = [_home(node) for node in self.nodes]
        for each in self.functions.values():
            for number in each.nodes:
                homes[number] = each.scope
        readers = _placing_edges(self.nodes, edges)
        return ScopeTree(
            self.nodes,
            edges.source[readers],
            edges.target[readers],
            homes=homes,
            folded=self.hidden,
            unwrapped=_UNWRAPPED,
        )

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

    def shown_label(self, number: int) -> str:
        """``label`` as people read it."""
        label, kind = self.label(number), self.nodes[number].kind
        return label if kind == "op" else leaf_label(label, kind)

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
        found = self.tree.numbers.get(path if not path or path.endswith("/") else f"{path}/")
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

    def unfolded(self, edge: InputEdge) -> InputEdge:
        """``edge`` with the node that a folded producer has the tensor from."""
        number = None if edge.producer is None else self.numbers.get(edge.producer)
        passed = passed_input(self.nodes[number]) if number is not None else None
        if number is None or passed is None or not self.hidden[number]:
            return edge
        return self.unfolded(msgspec.structs.replace(passed, type=edge.type))

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


def _home(node: Node) -> str:
    """The scope in which a summary shows a node: a gradient with the ops that computed it, a leaf
    outside of modules with the ops that read it."""
    if node.kind == "op" or not node.scope:
        return node.scope
    if "gradient" in node.categories and not node.scope.startswith(GRADIENTS):
        return f"{GRADIENTS}{node.scope}"
    return "" if node.scope == _TOP else node.scope


def _placing_edges(nodes: Sequence[Node], edges: Edges) -> NDArray[np.bool_]:
    """The edges that say where a leaf belongs: of a parameter that the network reads, those to the
    network, because gradients and the optimizer read it, too."""
    is_forward = np.fromiter((node.phase == "forward" for node in nodes), bool, len(nodes))
    is_parameter = np.fromiter((node.kind == "parameter" for node in nodes), bool, len(nodes))
    to_forward = is_forward[edges.target]
    read_by_forward = np.zeros(len(nodes), bool)
    read_by_forward[edges.source[to_forward]] = True
    return to_forward | ~(is_parameter & read_by_forward)[edges.source]
