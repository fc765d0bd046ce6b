"""Walks the graph of a loss before each backward pass.

Every walk looks at the nodes whose gradient may not be finite; in some of the first steps the graph
is kept, with the source line of each node. Autograd records those lines while its anomaly mode is
on, which is so in these steps only, without its check for NaN.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch

from sonde.adapters.torch.diagnosis.parameters import ParameterSignals
from sonde.adapters.torch.diagnosis.recorder import (
    SONDE_FILES,
    EvidenceRecorder,
    shielded,
    source_of,
)
from sonde.core.graph import Source
from sonde.core.own_code import is_own
from sonde.diagnose.evidence import GraphNode, LossGraph, Number

KEPT = (0, 1, 2, 5, 10, 20, 30)
EVERY = 100
MOST_NODES = 4000
_LINE = re.compile(r'File "(.+)", line (\d+), in (\S+)')
_NUMBERS = (
    "dim",
    "reduction",
    "total_weight",
    "self_numel",
    "ignore_index",
    "p",
    "exponent",
    "other",
)
_SINGULAR = (
    *("Sqrt", "Rsqrt", "Log", "Log1P", "Log2", "Log10", "Pow", "Div", "Reciprocal"),
    *("Acos", "Asin", "Atanh", "Acosh", "Std", "Var", "Mean"),
    *("NllLoss", "NllLoss2D", "Softmax", "SafeSoftmax", "Exp", "Relu"),
)
_UNSIGNED = 1 << 63


@dataclass(slots=True, eq=False)
class LossGraphs:
    """Walks the graphs of losses; ``inspectors`` are called with every singular node."""

    recorder: EvidenceRecorder
    parameters: ParameterSignals
    inspectors: list[Callable[[str, Any, Any], None]] = field(default_factory=list)
    sources: dict[tuple[str, int], Source | None] = field(default_factory=dict)
    _is_tracing: bool = False
    _size: int = 0
    _walked: int = -1

    def install(self, undo: ExitStack) -> None:
        undo.callback(self._trace, False)
        self.begin_step()

    @shielded
    def begin_step(self) -> None:
        """Let autograd record lines in the steps whose graph is kept."""
        self._trace(is_kept(self.recorder.step) and not self.recorder.uses_compiler)

    def _trace(self, wanted: bool) -> None:
        if wanted and torch.is_anomaly_enabled() and not self._is_tracing:
            return  # The program's own anomaly mode stays as it is.
        if wanted != self._is_tracing:
            torch.set_anomaly_enabled(wanted, False)
            self._is_tracing = wanted

    @shielded
    def walk(self, roots: list[torch.Tensor]) -> None:
        nodes = [root.grad_fn for root in roots if root.grad_fn is not None]
        step = self.recorder.step
        kept = is_kept(step)
        if not nodes or (
            self._size > MOST_NODES and step % (self._size // MOST_NODES + 1) and not kept
        ):
            return
        order: list[Any] = []
        index: dict[Any, int] = {}
        waiting: list[Any] = list(nodes)
        while waiting:
            node = waiting.pop()
            if node in index:
                continue
            index[node] = len(order)
            order.append(node)
            waiting += [each for each, _ in node.next_functions if each is not None]
        self._size = len(order)
        counts: dict[str, int] = {}
        for node in order:
            name = short_name(node)
            number = counts[name] = counts.get(name, 0) + 1
            if name in _SINGULAR:
                for inspect in self.inspectors:
                    inspect(name, node, self.source(name, number, node))
            elif kept:
                self.source(name, number, node)
        if kept and self._walked != step:
            self._walked = step
            leaves = [each.variable for each in order if short_name(each) == "AccumulateGrad"]
            self.parameters.reached([each for each in leaves if isinstance(each, torch.Tensor)])
            if len(order) <= MOST_NODES:
                self.keep(order, index)

    def source(self, name: str, number: int, node: Any) -> Source | None:
        """The line of a node: its own if it was recorded, else that of an earlier walk."""
        own = line_of(node) if self._is_tracing else None
        if own is not None:
            self.sources[name, number] = own
            return own
        return self.sources.get((name, number))

    def keep(self, order: list[Any], index: dict[Any, int]) -> None:
        nodes: list[GraphNode] = []
        for node in order:
            name = short_name(node)
            parameter = None
            if name == "AccumulateGrad":
                known = self.parameters.known.get(id(node.variable))
                parameter = None if known is None else known.name
            shape, dtype = output_of(node)
            inputs = tuple(index[each] for each, _ in node.next_functions if each in index)
            nodes.append(
                GraphNode(name, inputs, shape, dtype, saved_of(node), line_of(node), parameter)
            )
        self.recorder.evidence.graphs.append(LossGraph(self.recorder.step, tuple(nodes)))
        del self.recorder.evidence.graphs[8:]


def is_kept(step: int) -> bool:
    return step in KEPT or (step > 0 and step % EVERY == 0)


def short_name(node: Any) -> str:
    """``Sqrt`` for ``SqrtBackward0``."""
    name = str(node.name()).rpartition("::")[2]
    return re.sub(r"Backward\d*$", "", name)


def output_of(node: Any) -> tuple[tuple[int, ...] | None, str]:
    """Shape and dtype of what the node computed in forward."""
    data = getattr(node, "_input_metadata", ())
    if not data:
        return None, ""
    return tuple(int(each) for each in data[0].shape), str(data[0].dtype).removeprefix("torch.")


def saved_of(node: Any) -> dict[str, Number]:
    found: dict[str, Number] = {}
    for name in _NUMBERS:
        value = getattr(node, f"_saved_{name}", None)
        if isinstance(value, torch.Tensor) and value.numel() == 1:
            value = float(value)
        if isinstance(value, (list, tuple)) and len(value) == 1:
            value = value[0]
        if isinstance(value, (bool, int, float)):
            if isinstance(value, int) and value >= _UNSIGNED:
                value -= 1 << 64
            found[name] = value
    return found


def line_of(node: Any) -> Source | None:
    """The innermost line of the user's own code that called the op of ``node`` in forward."""
    for entry in reversed(node.metadata.get("traceback_", ())):
        match = _LINE.search(entry)
        if match is None:
            continue
        file = match[1]
        if not file.startswith((SONDE_FILES, "<")) and is_own(file):
            return source_of(file, int(match[2]), match[3])
    return None
