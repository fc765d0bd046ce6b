"""Which op of a compiled graph is wrong: every op by itself, given the inputs it had there.

The graph is compiled once more with the values of all its ops as outputs. Each op is then run in
float64 on the values its inputs had in compiled code; how far the compiled result may be from that
is measured by running the op eagerly on the same inputs, and by moving the last bits of them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import fx
from torch.utils import _pytree as pytree

from sonde.adapters.torch.compile_check import private
from sonde.adapters.torch.compile_check.distances import epsilon_of, op_errors
from sonde.adapters.torch.compile_check.places import module_of, source_of
from sonde.adapters.torch.compile_check.records import GraphCompiler
from sonde.adapters.torch.compile_check.tape import jittered, widened
from sonde.adapters.torch.compile_check.ways import AotGraph, drop_unneeded, first_line
from sonde.adapters.torch.schema import op_info
from sonde.adapters.torch.views import name_of
from sonde.core.agreement import Fault, OpErrors, WrongOp, relative

_SEED = 4


@dataclass
class OpsJudged:
    """How many ops could be judged, the first wrong one, and why others were not judged."""

    op_count: int = 0
    judged: int = 0
    wrong: WrongOp | None = None
    problems: list[str] = field(default_factory=list)


def judge_ops(graphs: Sequence[AotGraph], compile_graph: GraphCompiler, budget: int) -> OpsJudged:
    """Look for the first wrong op, forward first.

    At most ``budget`` bytes of values are held at a time: where that is not enough the graph is
    compiled several times, each with the values of other ops as outputs.
    """
    found = OpsJudged()
    for each in graphs:
        found.op_count += len(_ops(_without_drawing(each)[0]))
    for each in graphs:
        graph, inputs = _without_drawing(each)
        for group in _groups(graph, budget):
            try:
                values = _values(graph, inputs, group, compile_graph)
            except Exception as error:  # said in the report: whatever the compiler says of it
                found.problems.append(
                    f"the {each.phase} graph could not be compiled with its ops' values as "
                    f"outputs: {first_line(error)}"
                )
                break
            found.wrong = _first_wrong(each, group, values, found)
            if found.wrong is not None:
                return found
    return found


def _without_drawing(kept: AotGraph) -> tuple[fx.GraphModule, list[Any]]:
    """The graph with what its random ops drew as further inputs."""
    graph = fx.Graph()
    inputs = list(kept.inputs)
    env: dict[fx.Node, Any] = {}
    given: list[tuple[fx.Node, Any]] = []
    for node, drawn in kept.drawn.items():
        parts = enumerate(drawn) if isinstance(drawn, tuple) else [(None, drawn)]
        given += [
            (user, part)
            for number, part in parts
            for user in ([node] if number is None else list(node.users))
            if number is None or (user.args[1] == number and not (_drops(node) and number == 0))
        ]
    placeholders = [node for node in kept.graph.graph.nodes if node.op == "placeholder"]
    for node in placeholders:
        env[node] = graph.node_copy(node, lambda other: env[other])
    for node, value in given:
        env[node] = graph.placeholder(f"drawn_{node.name}")
        env[node].meta = dict(node.meta)
        inputs.append(value)
    for node in kept.graph.graph.nodes:
        if node in env or (node in kept.drawn and isinstance(kept.drawn[node], tuple)):
            continue
        if node.target is operator.getitem and _drops(node.args[0]) and node.args[0] in kept.drawn:
            env[node] = _dropped(graph, node, env, inputs, kept)
            continue
        env[node] = graph.node_copy(node, lambda other: env[other])
    module = fx.GraphModule(kept.graph, graph)
    return module, inputs


def _drops(node: Any) -> bool:
    return isinstance(node, fx.Node) and node.target is torch.ops.aten.native_dropout.default


def _dropped(
    graph: fx.Graph, node: fx.Node, env: dict[fx.Node, Any], inputs: list[Any], kept: AotGraph
) -> fx.Node:
    """What a dropout returns, computed from the mask that was drawn."""
    source: Any = node.args[0]
    values, probability = source.args[0], float(source.args[1])
    scale = 0.0 if probability >= 1 else 1 / (1 - probability)
    masks = [user for user in source.users if user.args[1] == 1]
    if masks:
        mask = env[masks[0]]
    else:
        with graph.inserting_before(next(iter(graph.nodes))):
            mask = graph.placeholder(f"drawn_{source.name}")
        drawn = kept.drawn[source][1]
        inputs.insert(0, drawn)
        mask.meta["val"] = drawn
    masked = graph.call_function(torch.ops.aten.mul.Tensor, (env[values], mask))
    made = graph.call_function(torch.ops.aten.mul.Tensor, (masked, scale))
    masked.meta, made.meta = dict(node.meta), dict(node.meta)
    if not node.meta["val"].is_contiguous():
        return made
    # A product takes the order of its factors, and a later view may not be possible with that.
    whole = graph.call_function(
        torch.ops.aten.clone.default, (made,), {"memory_format": torch.contiguous_format}
    )
    whole.meta = dict(node.meta)
    return whole


def _ops(module: fx.GraphModule) -> list[fx.Node]:
    """The nodes that can be judged: ATen ops that make tensors and write to nothing."""
    return [
        node
        for node in module.graph.nodes
        if node.op == "call_function"
        and isinstance(node.target, torch._ops.OpOverload)
        and not node.target._schema.is_mutable
        and op_info(node.target).fills
        and len(node.target._schema.returns)
    ]


def _results(node: fx.Node) -> list[fx.Node]:
    """The nodes that are tensors ``node`` makes: itself, or the parts of it that are used."""
    if isinstance(node.meta.get("val"), torch.Tensor):
        return [node]
    return [
        user
        for user in node.users
        if user.target is operator.getitem and isinstance(user.meta.get("val"), torch.Tensor)
    ]


def _groups(module: fx.GraphModule, budget: int) -> Iterator[list[fx.Node]]:
    """The ops in order, in groups whose results and inputs take no more than ``budget`` bytes."""
    group: list[fx.Node] = []
    size = 0
    for node in _ops(module):
        own = sum(_size(each) for each in {*_results(node), *node.all_input_nodes})
        if group and size + own > budget:
            yield group
            group, size = [], 0
        group.append(node)
        size += own
    if group:
        yield group


def _size(node: fx.Node) -> int:
    value = node.meta.get("val")
    return value.numel() * value.element_size() if isinstance(value, torch.Tensor) else 0


def _values(
    module: fx.GraphModule,
    inputs: list[Any],
    group: Sequence[fx.Node],
    compile_graph: GraphCompiler,
) -> dict[fx.Node, Any]:
    """What the results and the inputs of these ops are in compiled code."""
    wanted: dict[fx.Node, None] = {}
    for node in group:
        for each in (*node.all_input_nodes, *_results(node)):
            if each.op != "placeholder" and isinstance(each.meta.get("val"), torch.Tensor):
                wanted[each] = None
    graph = fx.Graph()
    env: dict[fx.Node, Any] = {}
    for node in module.graph.nodes:
        if node.op != "output":
            env[node] = graph.node_copy(node, lambda other: env[other])
            env[node].target = _anyhow(node.target)
    graph.output(tuple(env[node] for node in wanted))
    drop_unneeded(graph)
    whole = fx.GraphModule(module, graph)
    detached = [value.detach() if isinstance(value, torch.Tensor) else value for value in inputs]
    with torch.no_grad(), private.careful_compiler():
        outputs = compile_graph(whole, list(detached))(*detached)
    values: dict[fx.Node, Any] = dict(zip(wanted, outputs, strict=True))
    placeholders = (node for node in module.graph.nodes if node.op == "placeholder")
    values.update(zip(placeholders, detached, strict=True))
    for node in module.graph.nodes:
        if node.op == "get_attr":
            values[node] = getattr(module, node.target)
    return values


def _anyhow(target: Any) -> Any:
    """``target``, or for a view the op that copies where a view is not possible.

    A decomposition may lay out its result in another way than the op it stands for.
    """
    is_view = target is torch.ops.aten.view.default
    return torch.ops.aten.reshape.default if is_view else target


def _first_wrong(
    kept: AotGraph, group: Sequence[fx.Node], values: dict[fx.Node, Any], found: OpsJudged
) -> WrongOp | None:
    for node in group:
        if any(each not in values for each in node.all_input_nodes):
            continue
        judged = _judge(node, values)
        if judged is None:
            continue
        found.judged += 1
        for result, errors, fault in judged:
            if not errors.is_right:
                return _report(kept, node, result, errors, fault())
    return None


Judged = list[tuple[torch.Tensor, OpErrors, Callable[[], Fault]]]


def _judge(node: fx.Node, values: dict[fx.Node, Any]) -> Judged | None:
    """The errors of an op's results; None where float64 or eager cannot compute it."""
    target: Any = _anyhow(node.target)
    args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda each: values[each])
    wide_args, wide_kwargs = widened(target, args, kwargs)
    generator = torch.Generator().manual_seed(_SEED)

    def shaken(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            return jittered(value, generator)
        return value

    moved_args, moved_kwargs = widened(
        target, *pytree.tree_map(shaken, (tuple(args), dict(kwargs)))
    )
    try:
        with torch.no_grad():
            exact = target(*wide_args, **wide_kwargs)
            moved = target(*moved_args, **moved_kwargs)
            eager = target(*args, **kwargs)
    except (RuntimeError, NotImplementedError, TypeError, ValueError, IndexError):
        return None
    length = _reduction(args, exact)
    judged: Judged = []
    for result in _results(node):
        number = None if result is node else result.args[1]
        mine = [each if number is None else each[number] for each in (exact, moved, eager)]
        if not all(isinstance(each, torch.Tensor) for each in mine):
            continue
        compiled = values[result]
        errors = op_errors(compiled, *mine, args=args, length=length)

        def fault(at: Any = number, truth: Any = mine[0]) -> Fault:
            return _fault(target, wide_args, wide_kwargs, at, truth)

        judged.append((compiled, errors, fault))
    return judged


def _reduction(args: Any, result: Any) -> float:
    """How many elements of the largest input there are for one of the smallest output."""
    inputs = [each.numel() for each in pytree.tree_leaves(args) if isinstance(each, torch.Tensor)]
    outputs = [
        each.numel() for each in pytree.tree_leaves(result) if isinstance(each, torch.Tensor)
    ]
    return max(1.0, max(inputs, default=1) / max(1, min(outputs, default=1)))


def _fault(target: Any, args: Any, kwargs: Any, number: Any, truth: torch.Tensor) -> Fault:
    """Whether the op's decomposition is wrong already where it is run in float64."""
    decomposition = private.decompositions().get(target)
    if decomposition is None:
        return "lowering"
    try:
        with torch.no_grad():
            result = decomposition(*args, **kwargs)
        part = result if number is None else result[number]
        if part is NotImplemented:
            return "lowering"
        is_close = torch.allclose(part.double(), truth.double(), 1e-9, 1e-12, equal_nan=True)
    except Exception:  # a decomposition is the compiler's code: it may refuse float64
        return "unknown"
    return "lowering" if is_close else "decomposition"


def _report(
    kept: AotGraph, node: fx.Node, result: torch.Tensor, errors: OpErrors, fault: Fault
) -> WrongOp:
    phase: Literal["forward", "backward"] = "backward" if kept.phase == "backward" else "forward"
    norm = errors.norm[0]
    return WrongOp(
        op=str(node.target),
        phase=phase,
        module=module_of(node),
        source=source_of(node),
        dtype=name_of(result.dtype),
        shape=tuple(result.shape),
        compiled=relative(errors.compiled[0], norm),
        eager=relative(errors.eager[0], norm),
        allowed=relative(errors.allowed[0], norm),
        broken=errors.broken,
        fault=fault,
    )


def coarsest_epsilon(graphs: Sequence[AotGraph]) -> float:
    """The spacing of the coarsest floating dtype in the graphs; float32's if there is none."""
    found = [torch.finfo(torch.float32).eps]
    for each in graphs:
        for node in each.graph.graph.nodes:
            value = node.meta.get("val")
            if isinstance(value, torch.Tensor) and value.is_floating_point():
                found.append(epsilon_of(value.dtype))
    return max(found)
