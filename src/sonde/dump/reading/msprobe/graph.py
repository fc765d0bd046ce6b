"""The graph of a step that msprobe dumped.

msprobe records no edges: an input is connected to the call whose output had the same dtype, shape
and statistics (or checksum) last. Of a module and the calls inside it, whose outputs are the same
tensor, the inner one counts as the producer. Inputs that no call produced are leaves: parameters
if they require a gradient.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from sonde.core.graph import GRADIENTS, LEAF_TYPES, Edge, Graph, Kind, OpNode, Source
from sonde.core.keys import Io
from sonde.dump.reading.msprobe.document import ProbedCall, ProbedStep, ProbedTensor

_ROOT = "Default"
_OPTIMIZER = "optimizer"
"""The name that ``construct.json`` has for the optimizer, in which its calls ran."""
_OPTIMIZER_FILES = "/torch/optim/"

Place = tuple[str, int]


@dataclass(frozen=True, slots=True)
class StoredPlace:
    """A tensor of the dump under its name in the graph; ``order`` is that of its node."""

    node: str
    node_type: str
    io: Io
    slot: int
    order: int
    tensor: ProbedTensor


@dataclass(frozen=True, slots=True)
class ProbedGraph:
    graph: Graph
    tensors: tuple[StoredPlace, ...]


def build_graph(
    step: ProbedStep,
    parents: dict[str, str],
    stacks: dict[str, tuple[Source, ...]],
    graph_id: int,
) -> ProbedGraph:
    """Connect the calls of a step; nodes are in the order in which the calls ended."""
    calls = step.calls
    builder = _Builder(parents, stacks, _scopes(calls, parents), _parameters(calls))
    for call in _in_order_of_end(calls, parents):
        builder.add(call)
    return ProbedGraph(
        Graph(graph_id, f"msprobe {step.level}", tuple(builder.nodes)), tuple(builder.tensors)
    )


def _in_order_of_end(calls: tuple[ProbedCall, ...], parents: dict[str, str]) -> list[ProbedCall]:
    """A module ends after the last call inside it; in the backward pass msprobe may write it
    before."""
    place = {call.name: number for number, call in enumerate(calls)}
    end = {name: (number, 0) for name, number in place.items()}
    for call in calls:
        inside, depth = call.name, 0
        last = place[call.name]
        while (inside := parents.get(inside, "")) in end and depth < len(calls):
            depth += 1
            if last >= end[inside][0]:
                end[inside] = (last, max(depth, end[inside][1]))
    return sorted(calls, key=lambda call: (*end[call.name], place[call.name]))


def _scopes(calls: tuple[ProbedCall, ...], parents: dict[str, str]) -> dict[str, str]:
    """The scope of each call: that of the module in which it ran, such as
    ``Default/layer1-Sequential/0-Linear``."""
    classes = {call.module: call.class_name for call in calls if call.module}
    modules = {call.name: call.module for call in calls if call.module}
    return {
        call.name: _scope(call.module or modules.get(parents.get(call.name, ""), ""), classes)
        for call in calls
    }


def _parameters(calls: tuple[ProbedCall, ...]) -> dict[str, dict[str, ProbedTensor]]:
    """The parameters of each call of a module, by their full names."""
    return {
        call.name: {f"{call.module}.{name}": each for name, each in call.parameters.items()}
        for call in calls
    }


def _scope(module: str, classes: dict[str, str]) -> str:
    parts = module.split(".") if module else []
    names = [_ROOT]
    for number, part in enumerate(parts):
        kind = classes.get(".".join(parts[: number + 1]))
        names.append(f"{part}-{kind}" if kind else part)
    return "/".join(names)


@dataclass(slots=True)
class _Builder:
    parents: dict[str, str]
    stacks: dict[str, tuple[Source, ...]]
    scopes: dict[str, str]
    parameters: dict[str, dict[str, ProbedTensor]]
    nodes: list[OpNode] = field(default_factory=list)
    tensors: list[StoredPlace] = field(default_factory=list)
    _producers: dict[object, Place] = field(default_factory=dict)
    _calls: dict[str, str] = field(default_factory=dict)
    _names: set[str] = field(default_factory=set)

    def add(self, call: ProbedCall) -> None:
        """Add the node of a call, after the leaves that it is the first to read."""
        sources = self._sources(call)
        is_update = any(_OPTIMIZER_FILES in each.file for each in sources)
        if is_update or self._is_inside(call.name, _OPTIMIZER):
            call = replace(call, phase="optimizer")
        for name, tensor in self.parameters[call.name].items():
            if name not in self._names:
                self._add_leaf(name, "parameter", tensor, is_stored=True)
        scope = self.scopes[call.name]
        if call.phase == "backward":
            scope = f"{GRADIENTS}{scope}"
        edges = tuple(self._edge(call, tensor) for tensor in call.of("input"))
        name = self._unique(f"{scope}/{call.name}")
        outputs = call.of("output")
        self._add_node(
            OpNode(
                name,
                call.type,
                scope,
                call.phase,
                "op",
                edges,
                tuple(tensor.spec for tensor in outputs),
                tuple(call.attributes),
                sources,
            ),
            call.tensors,
        )
        self._calls[name] = call.name
        for tensor in outputs:
            self._note_producer(tensor, name, call)

    def _add_node(self, node: OpNode, tensors: list[ProbedTensor]) -> None:
        order = len(self.nodes)
        self.nodes.append(node)
        self._names.add(node.name)
        self.tensors += [
            StoredPlace(node.name, node.type, each.io, each.slot, order, each) for each in tensors
        ]

    def _sources(self, call: ProbedCall) -> tuple[Source, ...]:
        """The lines of a call; a backward call has those of its forward call."""
        found = self.stacks.get(call.name)
        return found or self.stacks.get(call.name.replace("backward", "forward"), ())

    def _edge(self, call: ProbedCall, tensor: ProbedTensor) -> Edge:
        identity = tensor.identity
        place = None if identity is None else self._producers.get(identity)
        place = place or self._parameter(call, tensor)
        if place is None:
            kind: Kind = "parameter" if tensor.requires_grad else "input"
            name = self._unique(f"{call.name}.input.{tensor.slot}")
            place = self._add_leaf(name, kind, tensor, is_stored=False)
        return Edge(*place, tensor.spec)

    def _parameter(self, call: ProbedCall, tensor: ProbedTensor) -> Place | None:
        """The parameter of the module around a call that a tensor is, if exactly one fits."""
        known = self.parameters.get(self.parents.get(call.name, ""), {})
        fitting = [
            name
            for name, each in known.items()
            if (each.spec, each.values) == (tensor.spec, tensor.values)
        ]
        if len(fitting) != 1:
            return None
        if fitting[0] in self._names:
            return fitting[0], 0
        return self._add_leaf(fitting[0], "parameter", known[fitting[0]], is_stored=True)

    def _add_leaf(self, name: str, kind: Kind, tensor: ProbedTensor, *, is_stored: bool) -> Place:
        """Add a parameter or an input. A parameter that the module recorded has a tensor of its
        own; others are stored as the input of the call that reads them first."""
        stored = [tensor] if is_stored else []
        node = OpNode(name, LEAF_TYPES[kind], "", "forward", kind, (), (tensor.spec,))
        self._add_node(node, stored)
        if tensor.identity is not None:
            self._producers[tensor.identity] = (name, 0)
        return name, 0

    def _note_producer(self, tensor: ProbedTensor, name: str, call: ProbedCall) -> None:
        identity = tensor.identity
        if identity is None:
            return
        known = self._producers.get(identity)
        if known is not None and self._is_inside(self._calls.get(known[0], ""), call.name):
            return
        self._producers[identity] = (name, tensor.slot)

    def _is_inside(self, inner: str, outer: str) -> bool:
        for _ in range(len(self.parents) + 1):
            if not inner or inner == outer:
                break
            inner = self.parents.get(inner, "")
        return bool(inner) and inner == outer

    def _unique(self, name: str) -> str:
        number, found = 1, name
        while found in self._names:
            number += 1
            found = f"{name}#{number}"
        return found
