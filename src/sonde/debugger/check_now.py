"""Watchpoints asked at once of what is at hand while the training stands still."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sonde.core.sink import OpCall, TensorView
from sonde.debugger.evaluate import Found, has_finite_inputs
from sonde.debugger.hit_detection import Watching
from sonde.debugger.trainee import Held, Trainee
from sonde.debugger.values.cache import ValueCache
from sonde.debugger.values.graphs import GRADIENT_TYPE, GraphRegistry, gradient_name
from sonde.watch.categories import GRADIENT, TENSOR, WEIGHT, categories_of
from sonde.watch.conditions import Evidence, Judgement, Needs, measure, memory_of
from sonde.watch.op_types import FILLING, infinite_argument
from sonde.watch.watchpoint import Watch
from sonde.wire.questions import Checked
from sonde.wire.shapes import Category, Hit, TensorType

MOST_NAMED: Final = 3
"""Tensors that are not at hand and are named; the others are counted."""
_UNKNOWN_YET: Final = (
    "it has NaN or Inf that may be meant so; whether they reach the loss or an update is seen as "
    "the step goes on"
)


@dataclass(frozen=True, slots=True, eq=False)
class Here:
    """Where the training stands: in the middle of ``step``, at ``call`` if that is an op, or
    before it. ``made`` is the step whose gradients and outputs there are."""

    step: int
    made: int
    is_inside: bool
    call: OpCall | None


@dataclass(frozen=True, slots=True, eq=False)
class _Node:
    """What may be asked about: a weight, a gradient, an op or a leaf with so many outputs."""

    name: str
    type: str
    scope: str
    categories: Sequence[Category]
    is_leaf: bool
    outputs: int = 1
    held: Held | None = None
    attributes: tuple[tuple[str, str], ...] = ()

    def is_aim_of(self, watch: Watch) -> bool:
        return watch.aims_at(
            self.name, self.type, self.scope, self.categories, is_leaf=self.is_leaf
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Tensor:
    """An output that is at hand: where the training has it, or as it was kept."""

    slot: int
    type: TensorType
    view: TensorView | None = None
    array: NDArray[Any] | None = None


class Checking:
    """Used from the training thread only."""

    def __init__(
        self, trainee: Trainee, graphs: GraphRegistry, kept: ValueCache, watching: Watching
    ) -> None:
        self._trainee = trainee
        self._graphs = graphs
        self._kept = kept
        self._watching = watching

    def check(self, here: Here) -> Checked:
        """Ask every watchpoint that can be asked now; what is found is listed, and stops nobody."""
        self._watching.plan()
        watches = [each for each in self._watching.watches if not _is_asked_later(each)]
        later = {each.spec.id for each in self._watching.watches if _is_asked_later(each)}
        judged = missing = 0
        names: list[str] = []
        hits: list[Hit] = []
        for node in self._nodes(here):
            wanted = [watch for watch in watches if node.is_aim_of(watch)]
            if not wanted:
                continue
            for tensor in self._tensors(node, here):
                if tensor is None:
                    missing += 1
                    names.append(node.name)
                else:
                    judged += 1
                    hits += self._ask(wanted, node, tensor, here)
        new = self._watching.hits.tell(sorted(hits, key=lambda hit: hit.order))
        named = tuple(dict.fromkeys(names))[:MOST_NAMED]
        return Checked(here.made, judged, new, missing, named, tuple(sorted(later)))

    # ----------------------------------------------------------- what there is

    def _nodes(self, here: Here) -> Iterator[_Node]:
        held = self._trainee.held()
        known: set[str] = set()
        for each in held:
            categories = WEIGHT if each.is_weight else TENSOR
            yield _Node(each.name, "Parameter", each.scope, categories, True, held=each)
            gradient = gradient_name(each.name)
            known |= {each.name, gradient}
            if each.is_weight and each.gradient() is not None:
                yield _Node(gradient, GRADIENT_TYPE, each.scope, GRADIENT, True, held=each)
        weights = {each.name for each in held if each.is_weight}
        yield from (node for node in self._ran(here, weights) if node.name not in known)

    def _ran(self, here: Here, weights: set[str]) -> Iterator[_Node]:
        """The ops and leaves of the step that has ended, or of the one that runs so far; where
        that is not observed those of the last that was."""
        if here.is_inside and self._trainee.is_observed():
            gradients = {gradient_name(name) for name in weights}
            ops = {op.name: op for op in self._trainee.nodes_so_far()}
            if here.call is not None:
                ops.setdefault(here.call.node.name, here.call.node)  # A leaf is met before its op.
            for op in ops.values():
                categories = categories_of(op, weights, gradients)
                is_leaf = op.kind != "op"
                yield _Node(
                    op.name,
                    op.type,
                    op.scope,
                    categories,
                    is_leaf,
                    len(op.outputs),
                    attributes=op.attributes,
                )
            return
        for node in self._graphs.nodes_of(self._graphs.current):
            is_leaf = node.kind != "op"
            count = len(node.outputs)
            yield _Node(
                node.name,
                node.type,
                node.scope,
                node.categories,
                is_leaf,
                count,
                attributes=node.attributes,
            )

    def _tensors(self, node: _Node, here: Here) -> Sequence[_Tensor | None]:
        """Its outputs; None for those that are not at hand."""
        if node.held is not None:
            held = node.held
            view = held.value() if node.name == held.name else held.gradient()
            return [] if view is None else [_of_view(view)]
        if here.call is not None and here.call.node.name == node.name:
            return [_of_view(view) for view in here.call.outputs if view.is_filled]
        return [self._kept_output(node.name, slot, here.made) for slot in range(node.outputs)]

    def _kept_output(self, name: str, slot: int, step: int) -> _Tensor | None:
        kept = self._kept.find((name, "output", slot), step)
        if kept is None:
            return None
        return _Tensor(slot, TensorType(kept.dtype, kept.array.shape), array=kept.array)

    def _inputs_finite(self, node: _Node, here: Here) -> bool | None:
        """Whether what went into an op was finite; None if that is not at hand."""
        if node.is_leaf or node.held is not None:
            return None
        if here.call is not None and here.call.node.name == node.name:
            return has_finite_inputs(here.call)
        known = self._graphs.node(node.name)
        if known is None:
            return None
        is_finite = True
        for slot in range(len(known.inputs)):
            kept = self._kept.find((node.name, "input", slot), here.made)
            if kept is None:
                return None
            is_finite &= kept.array.dtype.kind not in "fc" or bool(np.isfinite(kept.array).all())
        return is_finite

    # ------------------------------------------------------------------ asking

    def _ask(
        self, watches: Sequence[Watch], node: _Node, tensor: _Tensor, here: Here
    ) -> Iterator[Hit]:
        needs = reduce(or_, (watch.needs for watch in watches))
        is_weight = node.held is not None and node.held.is_weight
        is_parameter = node.held is not None and node.name == node.held.name
        step = here.step if is_parameter else here.made
        finite = self._inputs_finite(node, here)
        # A leaf is no op, so that it does not produce NaN or Inf.
        evidence = self._evidence(tensor, needs, False if node.is_leaf else finite, step)
        call = here.call if here.call is not None and here.call.node.name == node.name else None
        for watch in watches:
            if watch.is_about_non_finite and self._watching.has_judged(
                watch, node.name, tensor.view
            ):
                continue
            judgement = watch.judge(evidence)
            if judgement.verdict == "clear":
                continue
            if not is_weight and not watch.names(node.name):
                judgement = _as_far_as_known(watch, judgement, evidence, node)
            found = Found(
                watch, node.name, "output", tensor.slot, tensor.type, judgement, tensor.view
            )
            is_bad = evidence.statistics is not None and evidence.statistics.non_finite_count > 0
            is_producer = finite if is_bad else None
            yield self._watching.late_hit(found, step, call, is_producer=is_producer)

    def _evidence(
        self, tensor: _Tensor, needs: Needs, inputs_finite: bool | None, step: int
    ) -> Evidence:
        if tensor.array is not None:
            memory = memory_of(tensor.array)
            return measure(memory, needs, inputs_finite=inputs_finite, step=step)
        assert tensor.view is not None
        found = self._trainee.memory(tensor.view)
        if isinstance(found, str):
            count = self._trainee.non_finite(tensor.view)
            return Evidence(missing=found, inputs_finite=inputs_finite, non_finite=count, step=step)
        return measure(found, needs, inputs_finite=inputs_finite, step=step)


def _is_asked_later(watch: Watch) -> bool:
    """Whether it needs to see a step go by: it compares, or asks of initial weights."""
    needs = watch.needs
    return (
        watch.level == "initial" or needs.previous or needs.previous_statistics or needs.at_step_end
    )


def _as_far_as_known(
    watch: Watch, judgement: Judgement, evidence: Evidence, node: _Node
) -> Judgement:
    """Undecided of infinities, and of what an op was told to write: what comes of them is known
    only to the step that goes by."""
    if watch.level != "overflow" or judgement.verdict != "hit":
        return judgement
    statistics = evidence.statistics
    is_told = node.type in FILLING and infinite_argument(node.attributes) is not None
    if not is_told and (statistics is None or statistics.nan_count):
        return judgement
    return replace(judgement, verdict="undecided", why=_UNKNOWN_YET)


def _of_view(view: TensorView) -> _Tensor:
    return _Tensor(view.slot, TensorType(view.dtype, view.shape), view=view)
