"""Describes a graph that torch.compile made: its ops and edges, with modules and source lines.

The graph is AOTAutograd's: what a backend is given to make code of, forward and backward apart,
without in-place ops, decomposed as far as the backend wishes. Every op gets a number, which is also
stored on the graph's node, so that it is found again after the backend's own passes.
"""

from __future__ import annotations

import operator
import os
import re
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx, nn

from sonde.adapters.torch.eager.naming.source_lines import MOST_FRAMES, is_user_file, plain_function
from sonde.adapters.torch.eager.op_schema import OpInfo, attribute_text, named_arguments, op_info
from sonde.adapters.torch.eager.step_inputs import dtype_name
from sonde.core.graph import Source, TensorSpec

NUMBER = "sonde_op"
"""The key of an op's number in the ``meta`` of its node."""

_FRAME = re.compile(r'^ *File "(?P<file>.+)", line (?P<line>\d+), in (?P<function>.+)$')
_OPTIMIZERS = f"{os.sep}torch{os.sep}optim{os.sep}"
_UNKNOWN_SIZE = -1
_EFFECTS = ("with_effects", "prims._make_token.default", "prims._sink_tokens.default")
_COPY = torch.ops.aten.copy_.default


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor of a graph: slot ``slot`` of the outputs of op ``op``, or if that is None of the
    graph's own inputs. Slots count tensors alone."""

    op: int | None
    slot: int


@dataclass(frozen=True, slots=True)
class AotOp:
    """One op. ``modules`` are those it ran in, outermost first, as the trace saw them.

    ``original`` is the type of the op it was decomposed from, or None. ``sequence`` is autograd's
    number, the same for a forward op and the backward ops it caused. ``is_recomputed``: a forward
    op that runs (again) in the backward graph. ``written`` is the graph's input it writes to.
    """

    number: int
    target: Any
    info: OpInfo
    modules: tuple[weakref.ref[nn.Module], ...]
    is_recomputed: bool
    sequence: int | None
    original: str | None
    sources: tuple[Source, ...]
    inputs: tuple[Operand | None, ...]
    specs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    attributes: tuple[tuple[str, str], ...]
    written: int | None


@dataclass(frozen=True, slots=True, eq=False)
class AotGraph:
    """One compiled graph. ``results`` are what it returns, None for anything but an op's tensor.

    ``family`` is shared by the graphs of one compilation. ``is_optimizer``: all of its ops were
    traced from an optimizer's step.
    """

    ops: tuple[AotOp, ...]
    results: tuple[Operand | None, ...]
    is_backward: bool
    is_optimizer: bool
    family: Family


@dataclass(slots=True, eq=False)
class Family:
    """The forward and the backward graph of one compilation.

    ``by_sequence``: the number of the last op of the forward graph with that sequence number.
    """

    forward: AotGraph | None = None
    by_sequence: dict[int, int] = field(default_factory=dict)


Modules = Mapping[str, weakref.ref[nn.Module]]
"""The modules dynamo went through, by the key it gives them in ``nn_module_stack``."""


def describe(graph: fx.Graph, modules: Modules, *, is_backward: bool, family: Family) -> AotGraph:
    """Number and describe the ops of ``graph``. Changes only the nodes' ``meta``."""
    operands = {node: Operand(None, slot) for slot, node in enumerate(graph_inputs(graph))}
    ops: list[AotOp] = []
    results: tuple[Operand | None, ...] = ()
    optimizer_ops = 0
    for node in graph.nodes:
        if node.op == "placeholder" or _is_of_effects(node):
            continue
        if node.op == "output":
            leaves = node.args[0] if isinstance(node.args[0], (list, tuple)) else node.args
            results = tuple(
                operands.get(leaf) if isinstance(leaf, fx.Node) else None for leaf in leaves
            )
        elif node.target is operator.getitem and node.args[0] in operands:
            operands[node] = Operand(operands[node.args[0]].op, output_slot(node))
        elif node.op == "call_function" and tensor_values(node):
            node.meta[NUMBER] = len(ops)
            operands[node] = Operand(len(ops), 0)
            ops.append(_op(node, len(ops), operands, modules, is_backward))
            optimizer_ops += _OPTIMIZERS in (node.meta.get("stack_trace") or "")
    made = AotGraph(
        tuple(ops), results, is_backward, bool(ops) and optimizer_ops == len(ops), family
    )
    if not is_backward:
        family.forward = made
        for op in ops:
            if op.sequence is not None:
                family.by_sequence[op.sequence] = op.number
    return made


def graph_inputs(graph: fx.Graph) -> list[fx.Node]:
    """The inputs of ``graph`` that are tensors when it runs, in order."""
    return [
        node
        for node in graph.nodes
        if node.op == "placeholder" and tensor_of(node) is not None and not _is_of_effects(node)
    ]


def _is_of_effects(node: fx.Node) -> bool:
    """Whether ``node`` only keeps ops with effects, such as printing, in order.

    Such an op is wrapped, takes a token and gives one; as inputs of a graph the tokens are None
    when it runs.
    """
    if node.op == "placeholder":
        return any(_is_effect(user) and user.args[0] is node for user in node.users)
    if node.target is operator.getitem:
        owner = node.args[0]
        return isinstance(owner, fx.Node) and _is_effect(owner)
    return _is_effect(node)


def _is_effect(node: fx.Node) -> bool:
    return node.op == "call_function" and str(node.target) in _EFFECTS


def output_slot(item: fx.Node) -> int:
    """Which tensor among the outputs of its op the node ``item``, a ``getitem``, takes."""
    owner, index = item.args
    assert isinstance(owner, fx.Node)
    slots: list[Any] = [slot for slot, _ in tensor_values(owner)]
    return slots.index(index) if index in slots else 0


def tensor_of(node: Any) -> torch.Tensor | None:
    """The fake tensor of a node that makes one tensor; None for all other nodes and values."""
    value = node.meta.get("val") if isinstance(node, fx.Node) else None
    return value if isinstance(value, torch.Tensor) else None


def tensor_values(node: fx.Node) -> list[tuple[int, torch.Tensor]]:
    """The tensors (fakes) among the outputs of ``node``, with their slots."""
    value = node.meta.get("val")
    values = value if isinstance(value, (list, tuple)) else (value,)
    return [(slot, each) for slot, each in enumerate(values) if isinstance(each, torch.Tensor)]


def tensor_arguments(node: fx.Node) -> list[fx.Node]:
    """The nodes of tensors among the arguments, flattened, in the order of an eager op's inputs."""
    arguments = _flat((*node.args, *node.kwargs.values()))
    return [each for each in arguments if tensor_of(each) is not None]


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _flat(item)
    else:
        yield value


def _op(
    node: fx.Node,
    number: int,
    operands: Mapping[fx.Node, Operand],
    modules: Modules,
    is_backward: bool,
) -> AotOp:
    info = op_info(node.target)
    arguments = tensor_arguments(node)
    inputs = tuple(operands.get(argument) for argument in arguments)
    first = inputs[0] if inputs else None
    is_copy = node.target is _COPY and first is not None and first.op is None
    original = node.meta.get("original_aten")
    original_type = op_info(original).type if original is not None else None
    is_recomputed = is_backward and node.meta.get("partitioner_tag") == "is_forward"
    return AotOp(
        number=number,
        target=node.target,
        info=info,
        modules=modules_of(node, modules),
        is_recomputed=is_recomputed,
        sequence=node.meta.get("seq_nr"),
        original=original_type if original_type != info.type else None,
        sources=sources_of(node),
        inputs=inputs,
        specs=tuple(_spec(argument.meta["val"]) for argument in arguments),
        outputs=tuple(_spec(value) for _, value in tensor_values(node)),
        attributes=_attributes(node, info),
        written=first.slot if is_copy and first is not None else None,
    )


def _spec(value: torch.Tensor) -> TensorSpec:
    return TensorSpec(dtype_name(value.dtype), tuple(map(hint, value.shape)))


def hint(size: Any) -> int:
    """A size as it was when the graph was traced, -1 if unknown. Sets no guard."""
    if isinstance(size, int):
        return size
    found = getattr(size.node, "hint", None)
    return int(found) if isinstance(found, int) else _UNKNOWN_SIZE


def _attributes(node: fx.Node, info: OpInfo) -> tuple[tuple[str, str], ...]:
    """The arguments without tensors, by their schema name, as text."""
    return tuple(
        (name, attribute_text(value))
        for name, value in named_arguments(info, node.args, node.kwargs)
        if all(tensor_of(each) is None for each in _flat(value))
    )


def modules_of(node: fx.Node, modules: Modules) -> tuple[weakref.ref[nn.Module], ...]:
    """The modules that ran when ``node`` was traced, or the op that it is the backward of."""
    stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack") or {}
    # The second call of a module has a suffix: ``key@1``.
    keys = (key.partition("@")[0] for key in stack)
    return tuple(modules[key] for key in keys if key in modules)


def sources_of(node: fx.Node) -> tuple[Source, ...]:
    """The user's frames that torch recorded when it traced ``node``, innermost first."""
    found: list[Source] = []
    lines = (node.meta.get("stack_trace") or "").splitlines()
    for position, line in enumerate(lines):
        match = _FRAME.match(line)
        if match is not None and is_user_file(match["file"]):
            code = lines[position + 1].strip() if position + 1 < len(lines) else ""
            code = "" if _FRAME.match(code) else code
            function = plain_function(match["function"])
            found.append(Source(match["file"], int(match["line"]), function, code))
    return tuple(reversed(found))[:MOST_FRAMES]
