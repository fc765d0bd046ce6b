"""The op that observes tensors inside compiled code, and its insertion into graphs.

``sonde_compiled::observe`` passes the tensors it is given to its registered watcher. For a compiler
it is an op like any other: it has side effects, so that it is neither removed nor moved before the
ops it observes, and it takes tensors in any layout, so that none is copied for it.
"""

from __future__ import annotations

import itertools
import operator
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import fx

from sonde.adapters.torch.compiled.graph import (
    NUMBER,
    AotGraph,
    Operand,
    graph_inputs,
    output_slot,
    tensor_arguments,
)

_NAMESPACE = "sonde_compiled"
_IDLE = frozenset({"alias", "clone", "detach", "expand", "view", "_unsafe_view", "_to_copy"})
"""Ops without effect on values if shape and dtype stay the same."""

_RENAMED = frozenset(
    {
        (torch.ops.aten.view.default, torch.ops.aten.reshape.default),
        (torch.ops.aten._unsafe_view.default, torch.ops.aten.reshape.default),
    }
)
"""Ops that Inductor replaces by equivalent ones with another name."""


@dataclass(frozen=True, slots=True)
class Look:
    """The tensors that one observer is given: first outputs of its op, then inputs.

    ``outputs`` are slots; ``inputs`` are slots, each with its operand in the graph.
    """

    outputs: tuple[int, ...]
    inputs: tuple[tuple[int, Operand], ...]


Looks = Mapping[int, Look]
"""The observers of a piece of code by the number of their op."""


class Watcher(Protocol):
    """Receives the tensors of one piece of compiled code."""

    def observed(self, number: int, values: Sequence[torch.Tensor]) -> None: ...


_WATCHERS: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
_NUMBERS = itertools.count()


def register(watcher: Watcher) -> int:
    """Register ``watcher``, weakly; returns the number by which observers find it."""
    number = next(_NUMBERS)
    _WATCHERS[number] = watcher
    return number


def observe(values: Sequence[torch.Tensor], watcher: int, number: int) -> None:
    """Pass ``values``, the tensors of the ``Look`` of op ``number``, to the watcher."""
    found = _WATCHERS.get(watcher)
    if found is not None:
        found.observed(number, values)


def observing_op() -> Any:
    """The op ``sonde_compiled::observe``, defined at the first call."""
    if not _DEFINED:
        kind: Any = torch.library.Library
        library = kind(_NAMESPACE, "DEF")
        library.define(
            "observe(Tensor[] values, int watcher, int number) -> ()",
            tags=(torch.Tag.flexible_layout,),
        )
        library.impl("observe", observe, "CompositeExplicitAutograd")
        torch.library.register_fake(f"{_NAMESPACE}::observe", lambda *_: None, lib=library)
        op = torch.ops.sonde_compiled.observe.default
        fx.node.has_side_effect(op)
        _DEFINED.extend((op, library))
    return _DEFINED[0]


_DEFINED: list[Any] = []


def insert(
    graph: fx.Graph,
    described: AotGraph,
    wanted: Collection[int],
    target: Callable[..., Any],
    watcher: int,
) -> dict[int, Look]:
    """Insert an observer behind each op of ``graph`` whose number is ``wanted``, if it exists.

    ``graph`` is the graph that was described, or what a compiler's passes have made of it: an op
    that they replaced or removed gets no observer. Inputs are observed only where that keeps no
    further tensor alive: inputs of the graph, and outputs of observed ops.
    """
    order = {node: position for position, node in enumerate(graph.nodes)}
    numbers = _numbered(graph, described)
    operands = {node: Operand(None, slot) for slot, node in enumerate(graph_inputs(graph))}
    for node, number in numbers.items():
        if number in wanted:
            operands[node] = Operand(number, 0)
            for item in _items(node):
                operands[item] = Operand(number, output_slot(item))
    looks = _look_at_removed(graph, described, set(wanted) - set(numbers.values()), target, watcher)
    for node, number in numbers.items():
        if number not in wanted:
            continue
        outputs = _outputs(node, is_copy=described.ops[number].written is not None)
        if not outputs:
            continue
        looked = [
            (slot, argument)
            for slot, argument in enumerate(tensor_arguments(node))
            if argument in operands
        ]
        nodes = [output for _, output in outputs] + [argument for _, argument in looked]
        if described.ops[number].written is not None:
            place = graph.inserting_before(node)
        else:
            place = graph.inserting_after(max((each for _, each in outputs), key=order.__getitem__))
        with place:
            made = graph.call_function(target, (nodes, watcher, number))
        made.meta["val"] = None
        looks[number] = Look(
            tuple(slot for slot, _ in outputs),
            tuple((slot, operands[argument]) for slot, argument in looked),
        )
    return looks


def _look_at_removed(
    graph: fx.Graph,
    described: AotGraph,
    removed: Collection[int],
    target: Callable[..., Any],
    watcher: int,
) -> dict[int, Look]:
    """Insert observers for ops that were removed because they do nothing: of their input."""
    numbers = _numbered(graph, described)
    nodes = {number: node for node, number in numbers.items()}
    inputs = graph_inputs(graph)
    looks: dict[int, Look] = {}
    for number in sorted(removed):
        op = described.ops[number]
        first = op.inputs[0] if len(op.inputs) == 1 else None
        if first is None or op.info.type not in _IDLE or op.specs != op.outputs:
            continue
        source = inputs[first.slot] if first.op is None else nodes.get(first.op)
        if source is None or not isinstance(source.meta.get("val"), torch.Tensor):
            continue
        later = next(
            (node for node, other in numbers.items() if other > number),
            next(iter(reversed(graph.nodes))),
        )
        with graph.inserting_before(later):
            made = graph.call_function(target, ([source], watcher, number))
        made.meta["val"] = None
        looks[number] = Look((0,), ())
    return looks


def _numbered(graph: fx.Graph, described: AotGraph) -> dict[fx.Node, int]:
    """The ops that no pass has replaced: passes copy ``meta`` to an op's replacement."""
    found: dict[fx.Node, int] = {}
    taken: set[int] = set()
    for node in graph.nodes:
        number = node.meta.get(NUMBER)
        if number is None or node.op != "call_function" or node.target is operator.getitem:
            continue
        if number >= len(described.ops) or number in taken:
            continue
        target = described.ops[number].target
        if target is node.target or (target, node.target) in _RENAMED:
            taken.add(number)
            found[node] = number
    return found


def _items(node: fx.Node) -> list[fx.Node]:
    return [user for user in node.users if user.target is operator.getitem]


def _outputs(node: fx.Node, *, is_copy: bool) -> list[tuple[int, fx.Node]]:
    """The nodes of the op's output tensors, with their slots; unused outputs have no node.

    The output of a copy is the value it copies into the input.
    """
    if is_copy:
        value = node.args[1]
        return [(0, value)] if isinstance(value, fx.Node) else []
    if isinstance(node.meta.get("val"), torch.Tensor):
        return [(0, node)]
    return sorted(((output_slot(item), item) for item in _items(node)), key=lambda each: each[0])
