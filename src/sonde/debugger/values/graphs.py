"""The graphs of a rank, in the form in which they are sent to the server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sonde.core.graph import Edge, Graph, OpNode, TensorSpec
from sonde.debugger.trainee import ForwardTrace, Held, ModuleScope
from sonde.debugger.values.expected import ExpectedStep
from sonde.watch.categories import categories_of
from sonde.wire.convert import wire_node
from sonde.wire.rank import GRAPH_PART_NODES, GraphPart
from sonde.wire.shapes import Category, GraphBasis, Node

GRADIENT_TYPE = "Gradient"


class GraphRegistry:
    """Every graph observed so far. Used from the training thread only.

    Gradients of weights, which are not the output of any one op of torch, are added to a graph as
    leaves after the ops that computed them, so that they can be shown and watched like weights.
    ``current`` is the graph of the last step, also if that was not observed itself.

    Until the first step has ended, what is expected of it is a graph, too, which the ops that run
    replace one by one.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        # Numbers without gaps, so that an unfinished graph has the next one.
        self._numbers: dict[int, int] = {}
        self._graphs: dict[int, tuple[Node, ...]] = {}
        self._orders: dict[int, dict[str, int]] = {}
        self._draft: list[OpNode] = []
        self._expected = ExpectedStep()
        self._expected_nodes: dict[str, Node] = {}
        self.current: int | None = None

    @property
    def count(self) -> int:
        return len(self._graphs)

    @property
    def here(self) -> int | None:
        """The graph of the running step, if that is observed; else of the last step."""
        return self._next_number() if self._draft or self._expected_nodes else self.current

    def __iter__(self) -> Iterator[Node]:
        """The nodes of all graphs."""
        return (node for nodes in self._graphs.values() for node in nodes)

    def node(self, name: str) -> Node | None:
        """The node of that name, in the graph of the last step, or else in any."""
        number = self._graph_with(name)
        if number is None:
            return self._expected_nodes.get(name)
        return self._graphs[number][self._orders[number][name]]

    def nodes_of(self, number: int | None) -> Sequence[Node]:
        """The nodes of a graph that is known to its end; else none."""
        return () if number is None else self._graphs.get(number, ())

    def order_of(self, name: str) -> int | None:
        """The place of a node in the execution order; None if it is not known."""
        number = self._graph_with(name)
        return None if number is None else self._orders[number][name]

    def graph_with(self, name: str) -> int | None:
        """The number of a graph that contains the op; an unfinished graph has the next number."""
        if name in self._expected_nodes or any(node.name == name for node in self._draft):
            return self._next_number()
        return self._graph_with(name)

    def may_run_later(self, target: str) -> bool:
        """Whether a known graph other than that of the last step has this op, or an op in this
        scope, whose path ends with ``/``."""
        return any(
            target in names
            or (target.endswith("/") and any(name.startswith(target) for name in names))
            for number, names in self._orders.items()
            if number != self.current
        )

    def learn(self, graph: Graph, held: Sequence[Held]) -> list[GraphPart]:
        """Add the graph of a step that ended; the messages to send if it is new."""
        self._draft, self._expected_nodes = [], {}
        known = self._numbers.get(graph.id)
        if known is not None:
            self.current = known
            return []
        self.current = number = self._numbers[graph.id] = len(self._numbers)
        nodes = tuple(_wire_nodes(graph.nodes, held))
        self._graphs[number] = nodes
        self._orders[number] = {node.name: place for place, node in enumerate(nodes)}
        return list(_parts(number, graph.name, nodes, 0, len(nodes)))

    def expect_modules(
        self, modules: Sequence[ModuleScope], held: Sequence[Held]
    ) -> list[GraphPart]:
        """Add the modules and parameters that are known before the first step has ended; the
        messages to send if they are new."""
        if self._graphs or not self._expected.set_modules(modules, held):
            return []
        return self._expected_parts(held)

    def expect_ops(self, trace: ForwardTrace, held: Sequence[Held]) -> list[GraphPart]:
        """Add the ops of the forward pass unless the first step has ended; the messages to send."""
        if self._graphs or not trace.nodes:
            return []
        self._expected.set_trace(trace)
        return self._expected_parts(held)

    def _expected_parts(self, held: Sequence[Held]) -> list[GraphPart]:
        """The ops of the first step that ran so far, and those that are expected after them."""
        rest = list(self._expected.nodes(self._draft))
        nodes = list(_wire_ops([*self._draft, *rest], held))
        self._expected_nodes = {node.name: node for node in nodes}
        return self._parts_so_far()

    def _parts_so_far(self) -> list[GraphPart]:
        nodes = list(self._expected_nodes.values())
        basis: GraphBasis = self._expected.basis if len(nodes) > len(self._draft) else "run"
        return list(_parts(self._next_number(), self._name, nodes, 0, None, basis))

    def learn_draft(self, nodes: Sequence[OpNode], held: Sequence[Held]) -> list[GraphPart]:
        """Add the ops of a step that paused in its middle; the messages to send if they are new."""
        if self._expected and not self._graphs:
            is_new = [node.name for node in nodes] != [node.name for node in self._draft]
            self._draft = list(nodes)
            return self._expected_parts(held) if is_new else []
        if any(all(node.name in known for node in nodes) for known in self._orders.values()):
            self._draft = []
            return []
        known = len(self._draft)
        if [node.name for node in nodes[:known]] != [node.name for node in self._draft]:
            known = 0
        self._draft = list(nodes)
        if known == len(nodes):
            return []
        added = list(_wire_ops(nodes[known:], held, known))
        return list(_parts(self._next_number(), self._name, added, known, None))

    def all_parts(self) -> Iterator[GraphPart]:
        """The messages that describe all graphs, for a server that has none of them."""
        for number, nodes in self._graphs.items():
            yield from _parts(number, self._name, nodes, 0, len(nodes))
        if self._expected_nodes:
            yield from self._parts_so_far()

    def _next_number(self) -> int:
        return len(self._numbers)

    def _graph_with(self, name: str) -> int | None:
        if self.current is not None and name in self._orders[self.current]:
            return self.current
        return next((number for number, known in self._orders.items() if name in known), None)


def _parts(
    number: int,
    name: str,
    nodes: Sequence[Node],
    first: int,
    total: int | None,
    basis: GraphBasis = "run",
) -> Iterator[GraphPart]:
    """Divide ``nodes`` into messages of a permitted size; at least one, even without nodes."""
    for start in range(0, max(len(nodes), 1), GRAPH_PART_NODES):
        part = tuple(nodes[start : start + GRAPH_PART_NODES])
        yield GraphPart(number, name, first + start, part, total, basis)


def _names(held: Sequence[Held]) -> tuple[set[str], set[str]]:
    weights = {each.name for each in held if each.is_weight}
    return weights, {gradient_name(name) for name in weights}


def gradient_name(weight: str) -> str:
    return f"{weight}.grad"


def _wire_ops(nodes: Sequence[OpNode], held: Sequence[Held], first: int = 0) -> Iterator[Node]:
    """The nodes for the server, with their places from ``first`` on."""
    weights, gradients = _names(held)
    for place, node in enumerate(nodes, first):
        yield wire_node(node, place, categories_of(node, weights, gradients))


def _wire_nodes(nodes: Sequence[OpNode], held: Sequence[Held]) -> Iterator[Node]:
    yield from _wire_ops(nodes, held)
    place = len(nodes) - 1
    present = {node.name for node in nodes}
    for each in held:
        if each.is_weight and each.name in present and gradient_name(each.name) not in present:
            place += 1
            categories: tuple[Category, ...] = ("gradient", "tensor")
            yield wire_node(_gradient_node(each), place, categories)


def _gradient_node(held: Held) -> OpNode:
    view = held.value()
    spec = TensorSpec(view.dtype, view.shape)
    maker = held.gradient_maker
    return OpNode(
        name=gradient_name(held.name),
        type=GRADIENT_TYPE,
        scope=held.scope,
        phase="backward",
        kind="parameter",
        inputs=() if maker is None else (Edge(maker[0], maker[1], spec),),
        outputs=(spec,),
    )
