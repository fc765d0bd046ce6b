"""Walks the graph of a loss before each backward pass.

Every walk looks at the nodes whose gradient may not be finite; in some of the first steps the graph
is kept, with the source line of each node. Autograd records those lines while its anomaly mode is
on, without its check for NaN (`anomaly_lines`). That costs time, so it is on in the first step, and
later only in steps whose graph is kept, if a graph of another form has been seen: graphs of one
form, the same nodes in the same order, have the same lines.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch

from sonde.adapters.torch.calling_line import is_program, source_of
from sonde.adapters.torch.diagnosis.losses.anomaly_lines import AnomalyLines
from sonde.adapters.torch.diagnosis.parameters import ParameterSignals
from sonde.adapters.torch.diagnosis.recorder import EvidenceRecorder, shielded
from sonde.core.graph import Source
from sonde.diagnosis.evidence import GraphNode, LossGraph, Number

KEPT = (0, 1, 2, 5, 10, 20, 30)
MOST_FORMS = 64
MOST_GRAPHS = 4
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
    "min",
    "max",
)
ELEMENTWISE_LOSSES = (
    *("MseLoss", "SmoothL1Loss", "HuberLoss", "SoftMarginLoss"),
    *("BinaryCrossEntropy", "BinaryCrossEntropyWithLogits"),
)
"""Nodes that compute a loss of each element and its mean at once."""
_SINGULAR = (
    *("Sqrt", "Rsqrt", "Log", "Log1P", "Log2", "Log10", "Pow", "Div", "Reciprocal"),
    *("Acos", "Asin", "Atanh", "Acosh", "Std", "Var", "Mean"),
    *("NllLoss", "NllLoss2D", "Softmax", "SafeSoftmax", "Exp", "Relu", *ELEMENTWISE_LOSSES),
)
_UNSIGNED = 1 << 63
LOOKS = 3
MOST_COUNTS = 8


@dataclass(slots=True, eq=False)
class LossGraphs:
    """Walks the graphs of losses; ``inspectors`` are called with every singular node."""

    recorder: EvidenceRecorder
    parameters: ParameterSignals
    inspectors: list[Callable[[str, Any, Any], None]] = field(default_factory=list)
    sources: dict[tuple[str, int], Source | None] = field(default_factory=dict)
    _lines: dict[int, list[Source | None]] = field(default_factory=dict)
    _has_unknown: bool = False
    _anomaly: AnomalyLines = field(default_factory=AnomalyLines)
    _size: int = 0
    _walked: int = -1
    _seen_leaves: dict[int, int] = field(default_factory=dict)
    """How many graphs with this number of parameters were looked at beside the kept steps."""

    def install(self, undo: ExitStack) -> None:
        undo.callback(self._anomaly.switch, False)
        self.begin_step()

    @shielded
    def begin_step(self) -> None:
        """Let autograd record lines in the first steps, and where a graph is kept whose lines are
        not known."""
        step = self.recorder.step
        wanted = not step or (self._has_unknown and is_kept(step))
        self._anomaly.switch(wanted and not self.recorder.uses_compiler)

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
        names = [short_name(node) for node in order]
        lines = self.lines_of(names, order)
        for name, node, line in zip(names, order, lines, strict=True):
            if name in _SINGULAR and not is_hooked(node):
                for inspect in self.inspectors:
                    inspect(name, node, line)
        if self._walked != step and (kept or self._has_new_leaves(names)):
            self._walked = step
            leaves = [
                node.variable
                for name, node in zip(names, order, strict=True)
                if name == "AccumulateGrad"
            ]
            self.parameters.reached([each for each in leaves if isinstance(each, torch.Tensor)])
            has_room = len(self.recorder.evidence.graphs) < MOST_GRAPHS
            if kept and has_room and len(order) <= MOST_NODES:
                self.keep(order, index, lines)

    def _has_new_leaves(self, names: list[str]) -> bool:
        """Whether a graph has another number of parameters than those before: the network has
        grown, and the first such graphs are looked at between the kept steps, too."""
        count = names.count("AccumulateGrad")
        seen = self._seen_leaves.get(count, 0)
        if seen >= LOOKS or len(self._seen_leaves) > MOST_COUNTS:
            return False
        self._seen_leaves[count] = seen + 1
        return True

    def lines_of(self, names: list[str], order: list[Any]) -> list[Source | None]:
        """The line of each node: as recorded now or in an earlier graph of the same form; else that
        of the node of the same name and number in the last graph that was recorded."""
        form = hash(tuple(names))
        known = self._lines.get(form)
        if known is not None:
            return known
        numbered = _numbered(names)
        if not self._anomaly.is_on:
            self._has_unknown = True
            return [self.sources.get(each) for each in numbered]
        lines = [line_of(node) for node in order]
        self.sources.update(zip(numbered, lines, strict=True))
        if len(self._lines) < MOST_FORMS:
            self._lines[form] = lines
        self._has_unknown = False
        return lines

    def keep(self, order: list[Any], index: dict[Any, int], lines: list[Source | None]) -> None:
        if not torch.is_anomaly_enabled() and not self.recorder.evidence.graphs:
            return  # A trainer switched it off: a later graph has the lines.
        nodes: list[GraphNode] = []
        for node, line in zip(order, lines, strict=True):
            name = short_name(node)
            parameter = None
            if name == "AccumulateGrad":
                known = self.parameters.known.get(id(node.variable))
                parameter = None if known is None else known.name
            shape, dtype = output_of(node)
            inputs = tuple(index[each] for each, _ in node.next_functions if each in index)
            saved, is_direct = saved_of(node), is_called_directly(node)
            nodes.append(
                GraphNode(name, inputs, shape, dtype, saved, line, parameter, is_direct=is_direct)
            )
        self.recorder.evidence.graphs.append(LossGraph(self.recorder.step, tuple(nodes)))


def is_kept(step: int) -> bool:
    return step in KEPT or (step > 0 and step % EVERY == 0)


def short_name(node: Any) -> str:
    """``Sqrt`` for ``SqrtBackward0``."""
    return _without_backward(str(node.name()))


@functools.lru_cache(maxsize=1024)
def _without_backward(name: str) -> str:
    return re.sub(r"Backward\d*$", "", name.rpartition("::")[2])


def _numbered(names: list[str]) -> list[tuple[str, int]]:
    """Each name with its number among the same names, from 1."""
    counts: dict[str, int] = {}
    found = []
    for name in names:
        counts[name] = counts.get(name, 0) + 1
        found.append((name, counts[name]))
    return found


def output_of(node: Any) -> tuple[tuple[int, ...] | None, str]:
    """Shape and dtype of what the node computed in forward."""
    data = getattr(node, "_input_metadata", ())
    if not data:
        return None, ""
    return tuple(int(each) for each in data[0].shape), str(data[0].dtype).removeprefix("torch.")


def is_hooked(node: Any) -> bool:
    """Whether a hook of the program gives back what the node has saved: reading it would call the
    hook, and one of ``torch.utils.checkpoint`` executes a part of the forward pass again."""
    return any(
        getattr(getattr(node, name, None), "unpack_hook", None) is not None
        for name in _raw_names(node.__class__)
    )


@functools.cache
def _raw_names(kind: type) -> tuple[str, ...]:
    return tuple(name for name in dir(kind) if name.startswith("_raw_saved_"))


def saved_of(node: Any) -> dict[str, Number]:
    found: dict[str, Number] = {}
    if is_hooked(node):
        return found
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
        if is_program(file):
            return source_of(file, int(match[2]), match[3])
    return None


def is_called_directly(node: Any) -> bool:
    """Whether the program itself called the op of ``node`` in forward, and no library for it;
    known where lines are recorded."""
    recorded = node.metadata.get("traceback_", ())
    match = _LINE.search(recorded[-1]) if recorded else None
    return match is not None and is_program(match[1])
