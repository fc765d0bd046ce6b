"""Finds the wrong op of a compiled graph: checks every op on the inputs it had there.

The graph is compiled once more with the values of all its ops as outputs. Each op is then run in
float64 on the values its inputs had in compiled code; how far the compiled result may be from that
is measured by running the op eagerly on the same inputs, and by moving the last bits of them.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from sonde.adapters.torch.compile_check import private
from sonde.adapters.torch.compile_check.agreement import WrongOp, relative
from sonde.adapters.torch.compile_check.alone import Suspect, first_wrong_suspect
from sonde.adapters.torch.compile_check.distances import epsilon_of, op_errors
from sonde.adapters.torch.compile_check.private import pytree
from sonde.adapters.torch.compile_check.random_inputs import with_random_inputs
from sonde.adapters.torch.compile_check.records import GraphCompiler
from sonde.adapters.torch.compile_check.tape import detached, is_floating, jittered, widened
from sonde.adapters.torch.compile_check.ways import (
    TracedAotGraph,
    drop_unneeded,
    first_line,
    module_of,
    source_of,
)
from sonde.adapters.torch.compiled.graph import tensor_of
from sonde.adapters.torch.eager.op_schema import op_info, tensors_in
from sonde.adapters.torch.private import OpOverload
from sonde.adapters.torch.tensors.view import name_of

_SEED = 4


@dataclass
class OpsJudged:
    """How many ops could be checked, the first wrong one, and why others were not checked."""

    op_count: int = 0
    judged: int = 0
    wrong: WrongOp | None = None
    problems: list[str] = field(default_factory=list)


def judge_ops(
    graphs: Sequence[TracedAotGraph], compile_graph: GraphCompiler, budget: int
) -> OpsJudged:
    """Look for the first wrong op, forward first.

    At most ``budget`` bytes of values are held at a time: where that is not enough the graph is
    compiled several times, each with the values of other ops as outputs.
    """
    found = OpsJudged()
    for each in graphs:
        found.op_count += len(ops_of(with_random_inputs(each)[0]))
    for each in graphs:
        graph, inputs = with_random_inputs(each)
        for group in _groups(graph, budget):
            try:
                values = _values(graph, inputs, group, compile_graph)
            except Exception as error:  # Any backend compiles here; the report has the error.
                found.problems.append(
                    f"the {each.phase} graph could not be compiled with its ops' values as "
                    f"outputs: {first_line(error)}"
                )
                break
            found.wrong = _first_wrong(each, group, values, found, compile_graph)
            if found.wrong is not None:
                return found
    return found


def ops_of(module: fx.GraphModule) -> list[fx.Node]:
    """The nodes that can be checked: ATen ops that return tensors and write to nothing."""
    return [
        node
        for node in module.graph.nodes
        if node.op == "call_function"
        and isinstance(node.target, OpOverload)
        and not node.target._schema.is_mutable
        and op_info(node.target).fills
        and len(node.target._schema.returns)
    ]


def _results(node: fx.Node) -> list[fx.Node]:
    """The nodes of the tensors that ``node`` returns: itself, or the items of it that are used."""
    if tensor_of(node) is not None:
        return [node]
    items = (user for user in node.users if user.target is operator.getitem)
    return [item for item in items if tensor_of(item) is not None]


def _groups(module: fx.GraphModule, budget: int) -> Iterator[list[fx.Node]]:
    """The ops in order, in groups whose results and inputs take no more than ``budget`` bytes."""
    group: list[fx.Node] = []
    size = 0
    for node in ops_of(module):
        own = sum(size_of(each) for each in {*_results(node), *node.all_input_nodes})
        if group and size + own > budget:
            yield group
            group, size = [], 0
        group.append(node)
        size += own
    if group:
        yield group


def size_of(node: fx.Node) -> int:
    value = tensor_of(node)
    return 0 if value is None else value.numel() * value.element_size()


def _values(
    module: fx.GraphModule,
    inputs: list[Any],
    group: Sequence[fx.Node],
    compile_graph: GraphCompiler,
) -> dict[fx.Node, Any]:
    """The values of the results and inputs of these ops in compiled code."""
    wanted: dict[fx.Node, None] = {}
    for node in group:
        for each in (*node.all_input_nodes, *_results(node)):
            if each.op != "placeholder" and tensor_of(each) is not None:
                wanted[each] = None
    whole = with_outputs(module, wanted)
    given = detached(inputs)
    with torch.no_grad(), private.quick_compiler():
        outputs = compile_graph(whole, list(given))(*given)
    values: dict[fx.Node, Any] = dict(zip(wanted, outputs, strict=True))
    placeholders = (node for node in module.graph.nodes if node.op == "placeholder")
    values.update(zip(placeholders, given, strict=True))
    for node in module.graph.nodes:
        if node.op == "get_attr":
            values[node] = getattr(module, node.target)
    return values


def with_outputs(module: fx.GraphModule, outputs: Iterable[fx.Node]) -> fx.GraphModule:
    """``module`` with the values of ``outputs`` as its only outputs."""
    graph = fx.Graph()
    env: dict[fx.Node, Any] = {}
    for node in module.graph.nodes:
        if node.op != "output":
            env[node] = graph.node_copy(node, lambda other: env[other])
            env[node].target = _copying(node.target)
    graph.output(tuple(env[node] for node in outputs))
    drop_unneeded(graph)
    return fx.GraphModule(module, graph)


def _copying(target: Any) -> Any:
    """``target``, or for a view the op that copies where a view is not possible.

    A decomposition may lay out its result in another way than the op it replaces.
    """
    is_view = target is torch.ops.aten.view.default
    return torch.ops.aten.reshape.default if is_view else target


def _first_wrong(
    kept: TracedAotGraph,
    group: Sequence[fx.Node],
    values: dict[fx.Node, Any],
    found: OpsJudged,
    compile_graph: GraphCompiler,
) -> WrongOp | None:
    suspects: list[Suspect] = []
    wrong: WrongOp | None = None
    for node in group:
        if any(each not in values for each in node.all_input_nodes):
            continue
        judged = _judge(node, values)
        if judged is None:
            continue
        found.judged += 1
        first = next((each for each in judged if not each.errors.is_right), None)
        if first is not None:
            wrong = _report(kept, first, first.errors.allowed[0])
            break
        suspects += [each for each in judged if each.errors.is_suspicious]
    try:
        found_wrong = first_wrong_suspect(suspects, compile_graph)
    except Exception as error:  # as above
        found.problems.append(
            f"{len(suspects)} ops of the {kept.phase} graph could not be compiled alone: "
            f"{first_line(error)}"
        )
        return wrong
    # Suspects come before ops that are certainly wrong.
    return (
        _report(kept, found_wrong, found_wrong.errors.allowed_alone)
        if found_wrong is not None
        else wrong
    )


def _judge(node: fx.Node, values: dict[fx.Node, Any]) -> list[Suspect] | None:
    """The errors of an op's results; None where float64 or eager cannot compute it."""
    target: Any = _copying(node.target)
    args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda each: values[each])
    wide_args, wide_kwargs = widened(target, args, kwargs)
    generator = torch.Generator().manual_seed(_SEED)

    def moved_tensor(value: Any) -> Any:
        return jittered(value, generator) if is_floating(value) else value

    moved_args, moved_kwargs = widened(
        target, *pytree.tree_map(moved_tensor, (tuple(args), dict(kwargs)))
    )
    try:
        with torch.no_grad():
            exact = target(*wide_args, **wide_kwargs)
            moved = target(*moved_args, **moved_kwargs)
            eager = target(*args, **kwargs)
    except (RuntimeError, NotImplementedError, TypeError, ValueError, IndexError):
        return None
    length = _reduction(args, exact)
    judged: list[Suspect] = []
    for result in _results(node):
        number: Any = None if result is node else result.args[1]
        mine = [each if number is None else each[number] for each in (exact, moved, eager)]
        if all(isinstance(each, torch.Tensor) for each in mine):
            errors = op_errors(values[result], *mine, args=args, length=length)
            dtype = result.meta["val"].dtype
            judged.append(Suspect(node, number, dtype, tuple(args), dict(kwargs), mine[0], errors))
    return judged


def _reduction(args: Any, result: Any) -> float:
    """The elements of the largest input for each element of the smallest output."""
    inputs = [each.numel() for each in tensors_in(args)]
    outputs = [each.numel() for each in tensors_in(result)]
    return max(1.0, max(inputs, default=1) / max(1, min(outputs, default=1)))


def _report(kept: TracedAotGraph, suspect: Suspect, allowed: float) -> WrongOp:
    errors, node = suspect.errors, suspect.node
    norm = errors.norm[0]
    return WrongOp(
        op=str(node.target),
        phase=kept.phase,
        module=module_of(node),
        source=source_of(node),
        dtype=name_of(suspect.dtype),
        shape=tuple(suspect.exact.shape),
        compiled=relative(errors.compiled[0], norm),
        eager=relative(errors.eager[0], norm),
        allowed=relative(allowed, norm),
        broken=errors.broken,
        fault=suspect.fault(),
    )


def coarsest_epsilon(graphs: Sequence[TracedAotGraph]) -> float:
    """The spacing of the coarsest floating dtype in the graphs; at least that of float32."""
    found = [torch.finfo(torch.float32).eps]
    for each in graphs:
        for node in each.graph.graph.nodes:
            value = tensor_of(node)
            if value is not None and value.is_floating_point():
                found.append(epsilon_of(value.dtype))
    return max(found)
