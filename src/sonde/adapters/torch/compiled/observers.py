"""The op that observes tensors inside compiled code, and its insertion into graphs.

``sonde_compiled::observe`` passes the tensors it is given to Sonde. It is declared to have side
effects, so that a compiler neither removes it nor moves it before the ops it observes, and to take
tensors in any layout, so that none is copied for it.
"""

from __future__ import annotations

import itertools
import operator
import weakref
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from sonde.adapters.torch.compiled.graph import (
    NUMBER,
    AotGraph,
    Operand,
    graph_inputs,
    output_slot,
    tensor_arguments,
    tensor_of,
)

if TYPE_CHECKING:
    from sonde.adapters.torch.compiled.variants import CompiledCode

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


_CODES: weakref.WeakValueDictionary[int, CompiledCode] = weakref.WeakValueDictionary()
_NUMBERS = itertools.count()


def register(code: CompiledCode) -> int:
    """Register ``code``, weakly; returns the number by which its observers find it."""
    number = next(_NUMBERS)
    _CODES[number] = code
    return number


def observe(values: Sequence[torch.Tensor], code: int, number: int) -> None:
    """Pass ``values``, the tensors of the ``Look`` of op ``number``, to the code they are from."""
    found = _CODES.get(code)
    if found is not None:
        found.emit(number, values)


@cache
def observing_op() -> tuple[Any, object]:
    """The op ``sonde_compiled::observe``, and its library, which must live as long."""
    kind: Any = torch.library.Library
    library = kind(_NAMESPACE, "DEF")
    library.define(
        "observe(Tensor[] values, int code, int number) -> ()",
        tags=(torch.Tag.flexible_layout,),
    )
    library.impl("observe", observe, "CompositeExplicitAutograd")
    torch.library.register_fake(f"{_NAMESPACE}::observe", lambda *_: None, lib=library)
    op = torch.ops.sonde_compiled.observe.default
    fx.node.has_side_effect(op)
    return op, library


def insert(
    graph: fx.Graph,
    described: AotGraph,
    wanted: Collection[int],
    target: Callable[..., Any],
    code: int,
) -> dict[int, Look]:
    """Insert an observer behind each op of ``graph`` whose number is ``wanted``, if it exists.

    ``graph`` is the graph that was described, or the result of a compiler's passes over it: an op
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
    looks = _look_at_removed(graph, described, set(wanted) - set(numbers.values()), target, code)
    for node, number in numbers.items():
        is_copy = described.ops[number].written is not None
        outputs = _outputs(node, is_copy=is_copy) if number in wanted else []
        if not outputs:
            continue
        inputs = [
            (slot, argument)
            for slot, argument in enumerate(tensor_arguments(node))
            if argument in operands
        ]
        last = max((output for _, output in outputs), key=order.__getitem__)
        with graph.inserting_before(node) if is_copy else graph.inserting_after(last):
            _call(graph, target, [each for _, each in (*outputs, *inputs)], code, number)
        looks[number] = Look(
            tuple(slot for slot, _ in outputs),
            tuple((slot, operands[argument]) for slot, argument in inputs),
        )
    return looks


def _call(
    graph: fx.Graph, target: Callable[..., Any], nodes: list[fx.Node], code: int, number: int
) -> None:
    """Insert a call of the observer here."""
    graph.call_function(target, (nodes, code, number)).meta["val"] = None


def _look_at_removed(
    graph: fx.Graph,
    described: AotGraph,
    removed: Collection[int],
    target: Callable[..., Any],
    code: int,
) -> dict[int, Look]:
    """Observe the input in place of ops that the compiler removed because they do nothing."""
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
        if source is None or tensor_of(source) is None:
            continue
        later = next(
            (node for node, other in numbers.items() if other > number),
            next(iter(reversed(graph.nodes))),
        )
        with graph.inserting_before(later):
            _call(graph, target, [source], code, number)
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
    if tensor_of(node) is not None:
        return [(0, node)]
    return sorted(((output_slot(item), item) for item in _items(node)), key=lambda each: each[0])
