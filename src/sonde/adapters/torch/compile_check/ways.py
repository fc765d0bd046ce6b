"""One recorded call of a compiled graph, run in several ways from the same inputs."""

from __future__ import annotations

import copy
import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import fx

from sonde.adapters.torch.compile_check import private
from sonde.adapters.torch.compile_check.records import Eager, GraphCall, eager_function
from sonde.adapters.torch.compile_check.tape import (
    Playing,
    Tape,
    jittered,
    random_kind,
    wide_argument,
)
from sonde.adapters.torch.compiled.graph import sources_of
from sonde.core.graph import Source

_JITTER_SEED = 20
_LONGEST = 200
_MODULE_PART = re.compile(r"\['([^']+)'\]")


@dataclass
class Results:
    """The results of one way: outputs by position, and gradients by position of the input.

    ``inputs`` are the inputs after the run, with what the graph wrote to them.
    """

    outputs: dict[int, torch.Tensor] = field(default_factory=dict)
    inputs: dict[int, torch.Tensor] = field(default_factory=dict)
    gradients: dict[int, torch.Tensor] = field(default_factory=dict)


@dataclass
class Ways:
    """The results of each way.

    "eager", "compiled" and "reference" (in float64) always exist; "jittered" (eager, with the last
    bits of the inputs changed) and "interpreted" (the compiler's graph, op by op) unless they
    failed. ``problems`` says why a way failed.
    """

    results: dict[str, Results]
    problems: list[str] = field(default_factory=list)


class WayFailedError(Exception):
    """Raised when a way that every comparison needs could not be run."""


def run_ways(record: GraphCall, tape: Tape) -> Ways:
    """Run the call in each way; WayFailedError if one fails that all comparisons need."""
    ways = Ways({})
    functions: list[tuple[str, str, Callable[[], Results]]] = [
        ("eager", "eagerly", lambda: run(record, eager_function(record.graph), tape)),
        ("compiled", "compiled", lambda: run(record, compiled(record), tape)),
        ("reference", "in float64", lambda: _reference(record, tape)),
        ("jittered", "with slightly changed inputs", lambda: _jittered(record, tape)),
        (
            "interpreted",
            "as the compiler's graph, op by op",
            lambda: run(record, _interpreted(record), tape),
        ),
    ]
    for name, text, function in functions:
        try:
            ways.results[name] = function()
        except Exception as error:  # Any backend and any module of the user runs here.
            problem = f"it could not be run {text}: {first_line(error)}"
            if name in ("eager", "compiled", "reference"):
                raise WayFailedError(problem) from error
            ways.problems.append(problem)
    return ways


def first_line(error: Exception) -> str:
    """An error in one short line."""
    lines = str(error).strip().splitlines() or [""]
    text = f"{type(error).__name__}: {lines[0]}"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def run(
    record: GraphCall,
    function: Callable[..., Any],
    tape: Tape,
    *,
    inputs: list[Any] | None = None,
    wide: bool = False,
) -> Results:
    """Run forward, and backward from the recorded gradients."""
    inputs = record.fresh_inputs() if inputs is None else inputs
    torch.set_rng_state(record.random_state)
    with record.ambient.restored(), Playing(tape, wide=wide):
        outputs = function(*inputs)
        outputs = outputs if isinstance(outputs, (list, tuple)) else (outputs,)
        pairs = [
            (output, record.tangents[number].to(output.dtype))
            for number, output in enumerate(outputs)
            if number in record.tangents and output.requires_grad
        ]
        if pairs:
            torch.autograd.backward([pair[0] for pair in pairs], [pair[1] for pair in pairs])
    found = Results()
    for number, output in enumerate(outputs):
        if isinstance(output, torch.Tensor):
            found.outputs[number] = output.detach()
    for number, value in enumerate(inputs):
        if isinstance(value, torch.Tensor):
            if value.grad is not None:
                found.gradients[number] = value.grad.detach()
            found.inputs[number] = value.detach()
    return found


def compiled(record: GraphCall, graph: fx.GraphModule | None = None) -> Callable[..., Any]:
    """The call's graph, or a variant of it, as the program's backend compiles it."""
    compiler = private.careful_compiler() if graph is None else private.quick_compiler()
    with record.ambient.restored(), compiler:
        return record.compile(copy.deepcopy(graph or record.graph), record.fresh_inputs())


def _interpreted(record: GraphCall) -> Callable[..., Any]:
    with record.ambient.restored(), private.careful_compiler():
        function: Callable[..., Any] = private.interpreted_backend()(
            copy.deepcopy(record.graph), record.fresh_inputs()
        )
    return function


def _reference(record: GraphCall, tape: Tape) -> Results:
    inputs = record.fresh_inputs(lambda tensor: tensor.to(torch.float64, copy=True))
    return run(record, _Wide(record.graph).run, tape, inputs=inputs, wide=True)


def _jittered(record: GraphCall, tape: Tape) -> Results:
    generator = torch.Generator().manual_seed(_JITTER_SEED)
    inputs = record.fresh_inputs(lambda tensor: jittered(tensor, generator).to(tensor.dtype))
    return run(record, eager_function(record.graph), tape, inputs=inputs)


class _Wide(Eager):
    """The graph with its own constants in float64."""

    def fetch_attr(self, target: str) -> Any:
        return wide_argument(super().fetch_attr(target))


Phase = Literal["forward", "backward"]


@dataclass
class TracedAotGraph:
    """One graph of AOTAutograd, ops as the user wrote them, with the inputs of its run and what its
    random ops drew."""

    phase: Phase
    graph: fx.GraphModule
    inputs: list[Any] = field(default_factory=list)
    drawn: dict[fx.Node, Any] = field(default_factory=dict)


def aot_graphs(record: GraphCall, tape: Tape) -> list[TracedAotGraph]:
    """The forward and the backward graph of the call before the compiler decomposes ops."""
    found: list[TracedAotGraph] = []

    def keep(phase: Phase, graph: fx.GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
        drop_unneeded(graph.graph)
        graph.recompile()
        kept = TracedAotGraph(phase, graph)
        found.append(kept)

        def call(*values: Any) -> Any:
            kept.inputs = [
                value.detach().clone() if isinstance(value, torch.Tensor) else value
                for value in values
            ]
            return _Drawing(kept).run(*values)

        return call

    with record.ambient.restored():
        function = private.aot_backend(
            functools.partial(keep, "forward"), functools.partial(keep, "backward")
        )(copy.deepcopy(record.graph), record.fresh_inputs())
    run(record, function, tape)
    return [each for each in found if each.inputs]


def drop_unneeded(graph: fx.Graph) -> None:
    """Remove ops that no output needs, impure ones too: prints, and random ops that would draw."""
    graph.eliminate_dead_code(lambda node: node.op in ("placeholder", "output"))


class _Drawing(fx.Interpreter):
    """Runs a graph and keeps the numbers that its random ops drew."""

    def __init__(self, kept: TracedAotGraph) -> None:
        super().__init__(kept.graph)
        self._kept = kept

    def run_node(self, n: fx.Node) -> Any:
        value = super().run_node(n)
        if n.op == "call_function" and random_kind(n.target) is not None:
            self._kept.drawn[n] = value
        return value


def source_of(node: fx.Node) -> Source | None:
    """The innermost line of the user's code that made the op, or the op it is the backward of."""
    return next(iter(sources_of(node)), None)


def module_of(node: fx.Node) -> str:
    """The path of the innermost module the op ran in, such as ``encoder.0``; empty for the root."""
    stack: Any = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack") or {}
    if not stack:
        return ""
    path = str(list(stack.values())[-1][0])
    parts = _MODULE_PART.findall(path.partition("_modules")[1] + path.partition("_modules")[2])
    if parts:
        return ".".join(parts)
    return path.removeprefix("L['self']").lstrip(".")
