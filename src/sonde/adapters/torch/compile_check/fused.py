"""Finds ops that are right one by one and wrong when fused, by keeping them apart.

A value that is an output of the graph is written to memory, so the ops before and after it are not
fused through it. If results deviate, but not when all values are outputs, this searches the
shortest run of ops whose values must stay inside the kernel for the results to deviate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from sonde.adapters.torch.compile_check import private
from sonde.adapters.torch.compile_check.agreement import Member, WrongGroup
from sonde.adapters.torch.compile_check.distances import comparisons
from sonde.adapters.torch.compile_check.ops import coarsest_epsilon, ops_of, size_of, with_outputs
from sonde.adapters.torch.compile_check.random_inputs import with_random_inputs
from sonde.adapters.torch.compile_check.records import GraphCompiler
from sonde.adapters.torch.compile_check.tape import (
    detached,
    is_floating,
    jittered,
    wide_argument,
    widened,
)
from sonde.adapters.torch.compile_check.ways import TracedAotGraph, module_of, source_of
from sonde.adapters.torch.compiled.graph import tensor_of
from sonde.adapters.torch.private import OpOverload

_SEED = 5


def wrong_together(
    graphs: Sequence[TracedAotGraph], compile_graph: GraphCompiler, budget: int
) -> WrongGroup | None:
    """The first ops that are wrong together, in forward or else in backward, compiled separately.

    Graphs whose values take more than ``budget`` bytes are not searched. Errors of compiling and
    running them are raised.
    """
    for kept in graphs:
        module, inputs = with_random_inputs(kept)
        ops = [node for node in ops_of(module) if tensor_of(node) is not None]
        if sum(map(size_of, ops)) <= budget:
            probe = _Probe(module, inputs, compile_graph, coarsest_epsilon([kept]))
            found = _fewest(ops, probe.is_wrong)
            if found:
                return WrongGroup(kept.phase, tuple(map(_member, found)))
    return None


def wrong_across(
    module: fx.GraphModule, is_wrong: Callable[[fx.GraphModule], bool]
) -> WrongGroup | None:
    """The same for forward and backward together, as the program compiled them.

    Backward may compute values of forward once more, in another precision than they had there, so
    that they do not fit each other. ``is_wrong`` compiles a variant of dynamo's graph and runs it.
    """
    ops = [node for node in module.graph.nodes if _makes_numbers(node)]

    def with_outputs(kept: Sequence[fx.Node]) -> fx.GraphModule:
        graph = fx.Graph()
        copies: dict[fx.Node, fx.Node] = {}
        outputs = graph.graph_copy(module.graph, copies)
        several = outputs if isinstance(outputs, (list, tuple)) else (outputs,)
        graph.output((*several, *(copies[node] for node in kept)))
        return fx.GraphModule(module, graph)

    found = _fewest(ops, lambda kept: is_wrong(with_outputs(kept)))
    return WrongGroup("forward and backward", tuple(map(_member, found))) if found else None


def _makes_numbers(node: fx.Node) -> bool:
    value = node.meta.get("example_value")
    is_call = node.op in ("call_function", "call_method", "call_module")
    return is_call and isinstance(value, torch.Tensor) and value.is_floating_point()


def _fewest(ops: Sequence[fx.Node], is_wrong: Callable[[Sequence[fx.Node]], bool]) -> list[fx.Node]:
    """The shortest run of ``ops`` that must not be outputs for results to deviate; else empty.

    ``is_wrong(kept)``: whether results deviate when the values of ``kept`` are outputs.
    """
    if not is_wrong([]) or is_wrong(ops):
        return []
    end = _first(len(ops), lambda count: is_wrong(ops[count:]))
    rest = ops[end:]
    begin = end - _first(end, lambda count: is_wrong([*ops[: end - count], *rest]))
    return _connected(ops[begin:end])


def _first(count: int, is_wrong: Callable[[int], bool]) -> int:
    """The least number that is wrong, by bisection; ``count`` is known to be, 0 not to be."""
    right, wrong = 0, count
    while wrong - right > 1:
        middle = (right + wrong) // 2
        if is_wrong(middle):
            wrong = middle
        else:
            right = middle
    return wrong


def _connected(row: Sequence[fx.Node]) -> list[fx.Node]:
    """The first and last op of ``row``, those that depend on the first, and all their inputs."""
    inside = set(row)
    found = {row[0], row[-1]}
    for node in row:
        if any(each in found and each is not row[-1] for each in node.all_input_nodes):
            found.add(node)
    for node in reversed(row):
        if node in found:
            found |= inside.intersection(node.all_input_nodes)
    return [node for node in row if node in found]


def _member(node: fx.Node) -> Member:
    target = node.target
    name = str(getattr(target, "__name__", target)) if node.op == "call_function" else str(target)
    is_op = isinstance(target, OpOverload)
    return Member(str(target) if is_op else name, module_of(node), source_of(node))


class _Probe:
    """Compiles a graph with some of its values as outputs, and checks whether results deviate."""

    def __init__(
        self,
        module: fx.GraphModule,
        inputs: Sequence[Any],
        compile_graph: GraphCompiler,
        epsilon: float,
    ) -> None:
        self._module = module
        self._compile = compile_graph
        self._epsilon = epsilon
        self._inputs = detached(inputs)
        leaves = next(iter(reversed(module.graph.nodes))).args[0]
        self._results = [leaf for leaf in leaves if tensor_of(leaf) is not None]
        generator = torch.Generator().manual_seed(_SEED)
        moved = [
            jittered(value, generator).to(value.dtype) if is_floating(value) else value
            for value in self._inputs
        ]
        graph = self._with_outputs([])
        with torch.no_grad():
            results = {
                "reference": _Wide(graph).run(*self._inputs),
                "eager": fx.Interpreter(graph).run(*self._inputs),
                "jittered": fx.Interpreter(graph).run(*moved),
            }
        self._by_way = {way: dict(enumerate(found)) for way, found in results.items()}

    def is_wrong(self, kept: Sequence[fx.Node]) -> bool:
        with torch.no_grad(), private.quick_compiler():
            graph = self._with_outputs(kept)
            outputs = self._compile(graph, list(self._inputs))(*self._inputs)
        names = {number: leaf.name for number, leaf in enumerate(self._results)}
        by_way = {**self._by_way, "compiled": dict(enumerate(outputs))}
        return not all(each.agrees for each in comparisons("output", names, by_way, self._epsilon))

    def _with_outputs(self, kept: Sequence[fx.Node]) -> fx.GraphModule:
        return with_outputs(self._module, (*self._results, *kept))


class _Wide(fx.Interpreter):
    """Runs a graph in float64."""

    def placeholder(self, target: Any, args: Any, kwargs: Any) -> Any:
        return wide_argument(super().placeholder(target, args, kwargs))

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        return wide_argument(super().get_attr(target, args, kwargs))

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        wide_args, wide_kwargs = widened(target, args, kwargs)
        return super().call_function(target, tuple(wide_args), wide_kwargs)
