"""Evaluates watchpoints during a pause, on the values that are available then."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from sonde.core.graph import OpNode
from sonde.core.keys import Io
from sonde.core.sink import OpCall
from sonde.debugger.hit_detection import HitDetection
from sonde.debugger.live_evaluation import (
    LiveTensor,
    gradient_node,
    has_finite_inputs,
    parameter_node,
)
from sonde.debugger.trainee import Held, Trainee
from sonde.debugger.values.cache import CachedTensor, ValueCache
from sonde.debugger.values.graphs import GraphRegistry, gradient_name
from sonde.watch.categories import categories_of
from sonde.watch.conditions import Memory, memory_of
from sonde.watch.evaluate import Evaluation, NodeWatches, evaluate
from sonde.watch.hits import WatchpointHit
from sonde.watch.measured_tensor import MeasuredTensor
from sonde.watch.op_types import FILLING, infinite_argument
from sonde.watch.watchpoint import Watch, WatchedNode
from sonde.wire.questions import Checked
from sonde.wire.shapes import Category, Node

MOST_NAMED: Final = 3
"""Unavailable tensors that are named; the others are counted."""
_NOT_YET_KNOWN: Final = (
    "it has NaN or Inf that may be expected; the rest of the step shows whether they reach the "
    "loss or an update"
)


@dataclass(frozen=True, slots=True, eq=False)
class Here:
    """Where the training is: inside ``step``, after ``call`` if that is an op, or before the step.
    ``made`` is the step that computed the available gradients and outputs."""

    step: int
    made: int
    is_inside: bool
    call: OpCall | None

    def call_of(self, op: str) -> OpCall | None:
        """The op at which the training is paused, if that is ``op``."""
        return self.call if self.call is not None and self.call.node.name == op else None


@dataclass(frozen=True, slots=True, eq=False)
class _Node:
    """A node to check: a parameter or its gradient (``held``), or an op or leaf of the graph."""

    watched: WatchedNode
    outputs: int = 1
    held: Held | None = None
    attributes: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        return self.watched.name

    @property
    def is_parameter(self) -> bool:
        return self.held is not None and self.name == self.held.name


class _CachedOutput(MeasuredTensor):
    """The cached values of an output."""

    __slots__ = ("_array", "dtype", "io", "shape", "slot")

    def __init__(self, slot: int, cached: CachedTensor) -> None:
        self.io: Io = "output"
        self.slot: int = slot
        self.dtype: str = cached.dtype
        self.shape: tuple[int, ...] = cached.array.shape
        self._array = cached.array

    def buffer(self) -> Memory:
        return memory_of(self._array)


class PauseCheck:
    """Checks the watchpoints of a rank that is paused. Used from the training thread only."""

    def __init__(
        self, trainee: Trainee, graphs: GraphRegistry, cached: ValueCache, detection: HitDetection
    ) -> None:
        self._trainee = trainee
        self._graphs = graphs
        self._cached = cached
        self._detection = detection

    def check(self, here: Here) -> Checked:
        """Evaluate every watchpoint that can be evaluated at a pause. Hits are listed; they do not
        pause the training."""
        self._detection.plan()
        unchanged = {each.name for each in self._trainee.unchanged_yet()}
        all_watches = self._detection.watches
        initial = [each for each in all_watches if unchanged and _is_initial(each)]
        later = {each.spec.id for each in all_watches if _needs_steps(each) and each not in initial}
        watches = [each for each in all_watches if not _needs_steps(each)]
        evaluated = 0
        missing: list[str] = []
        hits: list[WatchpointHit] = []
        for node in self._nodes(here):
            is_unchanged = node.is_parameter and node.name in unchanged
            applied = [*watches, *initial] if is_unchanged else watches
            planned = NodeWatches.select(applied, node.watched)
            for tensor in self._tensors(node, here) if planned else ():
                if tensor is None:
                    missing.append(node.name)
                else:
                    evaluated += 1
                    hits += self._evaluate(planned, node, tensor, here)
        hits.sort(key=lambda hit: hit.where.order)
        new = self._detection.hits.collector.add_checked(hits)
        named = tuple(dict.fromkeys(missing))[:MOST_NAMED]
        return Checked(here.made, evaluated, new, len(missing), named, tuple(sorted(later)))

    # ------------------------------------------------------ available tensors

    def _nodes(self, here: Here) -> Iterator[_Node]:
        held = self._trainee.held()
        known: set[str] = set()
        for each in held:
            yield _Node(parameter_node(each), held=each)
            known |= {each.name, gradient_name(each.name)}
            if each.is_weight and each.gradient() is not None:
                yield _Node(gradient_node(each), held=each)
        weights = {each.name for each in held if each.is_weight}
        yield from (node for node in self._graph_nodes(here, weights) if node.name not in known)

    def _graph_nodes(self, here: Here, weights: set[str]) -> Iterator[_Node]:
        """The ops and leaves that ran so far in the running step; if that has ended, or is not
        observed, those of the last step that was observed."""
        if here.is_inside and self._trainee.is_observed():
            gradients = {gradient_name(name) for name in weights}
            ops = {op.name: op for op in self._trainee.nodes_so_far()}
            if here.call is not None:
                # A leaf is emitted before its op, which adds it to the nodes.
                ops.setdefault(here.call.node.name, here.call.node)
            for op in ops.values():
                yield _graph_node(op, categories_of(op, weights, gradients))
        else:
            for node in self._graphs.nodes_of(self._graphs.current):
                yield _graph_node(node, node.categories)

    def _tensors(self, node: _Node, here: Here) -> Sequence[MeasuredTensor | None]:
        """The outputs of ``node``; None for those that are not available."""
        if node.held is not None:
            view = node.held.value() if node.is_parameter else node.held.gradient()
            return [] if view is None else [LiveTensor(view, self._trainee)]
        call = here.call_of(node.name)
        if call is not None:
            return [LiveTensor(view, self._trainee) for view in call.outputs if view.is_filled]
        return [self._cached_output(node.name, slot, here.made) for slot in range(node.outputs)]

    def _cached_output(self, name: str, slot: int, step: int) -> _CachedOutput | None:
        cached = self._cached.find((name, "output", slot), step)
        return None if cached is None else _CachedOutput(slot, cached)

    def _inputs_finite(self, node: _Node, here: Here) -> bool | None:
        """Whether the inputs of an op were finite; None if they are not available."""
        if node.watched.is_leaf:
            return None
        call = here.call_of(node.name)
        if call is not None:
            return has_finite_inputs(call)
        known = self._graphs.node(node.name)
        if known is None:
            return None
        is_finite = True
        for slot in range(len(known.inputs)):
            cached = self._cached.find((node.name, "input", slot), here.made)
            if cached is None:
                return None
            array = cached.array
            is_finite &= array.dtype.kind not in "fc" or bool(np.isfinite(array).all())
        return is_finite

    # ------------------------------------------------------------- evaluation

    def _evaluate(
        self, planned: NodeWatches, node: _Node, tensor: MeasuredTensor, here: Here
    ) -> Iterator[WatchpointHit]:
        hits = self._detection.hits
        step = here.step if node.is_parameter else here.made
        is_weight = node.held is not None and node.held.is_weight

        def inputs_finite() -> bool | None:
            # A leaf is not an op and does not produce NaN or Inf.
            return False if node.watched.is_leaf else self._inputs_finite(node, here)

        for found in evaluate(planned, tensor, step, inputs_finite):
            if found.watch.is_about_non_finite and hits.is_decided(found):
                continue
            statistics = found.evidence.statistics
            is_bad = statistics is not None and statistics.non_finite_count > 0
            is_producer = self._inputs_finite(node, here) if is_bad else None
            call = here.call_of(node.name)
            at_pause = hits.hit_at_pause(found, step, call, is_producer=is_producer)
            admitted = hits.streaks.admit(at_pause, found.watch)
            if admitted is None:
                continue
            hit = admitted
            if not is_weight and not found.watch.names(node.name) and _may_be_expected(found, node):
                hit = hit.as_undecided("not_yet_known", _NOT_YET_KNOWN)
            yield hit


def _graph_node(node: OpNode | Node, categories: Sequence[Category]) -> _Node:
    watched = WatchedNode(node.name, node.type, node.scope, categories, node.kind != "op")
    return _Node(watched, len(node.outputs), attributes=node.attributes)


def _is_initial(watch: Watch) -> bool:
    """Whether the watch is about initial weights, which exist until an optimizer changes them."""
    return watch.level == "initial"


def _needs_steps(watch: Watch) -> bool:
    """Whether the watch can be evaluated only as steps run: it compares with the previous step, or
    is about initial weights, and these have changed."""
    needs = watch.needs
    return _is_initial(watch) or needs.previous or needs.previous_statistics or needs.at_step_end


def _may_be_expected(found: Evaluation, node: _Node) -> bool:
    """Whether the hit is about infinities, or NaN that an argument asks for: only the rest of the
    step shows whether those are a fault."""
    if found.watch.level != "overflow" or found.judgement.verdict != "hit":
        return False
    statistics = found.evidence.statistics
    is_argument = node.watched.type in FILLING and infinite_argument(node.attributes) is not None
    return is_argument or (statistics is not None and not statistics.nan_count)
