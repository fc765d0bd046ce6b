"""Evaluates watchpoints on the tensors of a running training: parameters, gradients, op outputs."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass, field, replace

from sonde.core.graph import OpNode
from sonde.core.keys import Io
from sonde.core.sink import OpCall, TensorView
from sonde.core.statistics import Statistics
from sonde.debugger.trainee import Held, Trainee
from sonde.debugger.values.graphs import GRADIENT_TYPE, gradient_name
from sonde.debugger.values.previous import PreviousValues
from sonde.watch.categories import GRADIENT, TENSOR, WEIGHT, categories_of
from sonde.watch.conditions import Memory, Needs, PreviousValue
from sonde.watch.conditions.screen import Tests
from sonde.watch.evaluate import Evaluation, NodeWatches, evaluate, summarize
from sonde.watch.measured_tensor import MeasuredTensor
from sonde.watch.streaks import Streaks
from sonde.watch.watchpoint import Watch, WatchedNode
from sonde.wire.shapes import Category, Node

StatisticsCache = MutableMapping[tuple[object, int], Statistics]
"""By contents and number of elements: what ``expand`` repeats is another tensor."""


@dataclass(slots=True, eq=False)
class LiveTensor(MeasuredTensor):
    """A tensor of the training. Its statistics are looked up in, and added to, ``cache``.

    ``previous_values``: those of the previous step, in which it has the name ``name``.
    """

    view: TensorView
    trainee: Trainee
    name: str = ""
    previous_values: PreviousValues | None = None
    cache: StatisticsCache = field(default_factory=dict)
    _buffer: Memory | str | None = None
    _statistics: Statistics | None = None

    @property
    def io(self) -> Io:
        return self.view.io

    @property
    def slot(self) -> int:
        return self.view.slot

    @property
    def dtype(self) -> str:
        return self.view.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self.view.shape

    def statistics(self) -> Statistics | None:
        if self._statistics is None:
            key = (self.view.values_token, self.view.numel)
            self._statistics = self.cache.get(key) or summarize(self.buffer())
            if self._statistics is not None and key[0] is not None:
                self.cache[key] = self._statistics
        return self._statistics

    def buffer(self) -> Memory | str:
        if self._buffer is None:
            self._buffer = self.trainee.memory(self.view)
        return self._buffer

    def non_finite_count(self) -> int | None:
        return self.trainee.non_finite(self.view)

    def previous(self, needs: Needs) -> PreviousValue:
        if self.previous_values is None or not (needs.previous or needs.previous_statistics):
            return PreviousValue()
        return self.previous_values.value(self.name)

    def evaluate(
        self,
        watches: NodeWatches,
        step: int,
        inputs_finite: Callable[[], bool | None] = lambda: False,
    ) -> Iterator[Evaluation]:
        """Evaluate ``watches``, and keep the statistics if the next step is compared with them.

        ``inputs_finite`` is about the inputs of an op; a parameter or gradient is not an op and
        does not produce NaN or Inf.
        """
        yield from evaluate(watches, self, step, inputs_finite)
        needs = watches.needs
        statistics = None
        if needs.previous or needs.previous_statistics:
            statistics = self.statistics()
        if statistics is not None and self.previous_values is not None:
            self.previous_values.note(self.name, step, statistics)


def parameter_node(held: Held) -> WatchedNode:
    categories = WEIGHT if held.is_weight else TENSOR
    return WatchedNode(held.name, "Parameter", held.scope, categories, True)


def gradient_node(held: Held) -> WatchedNode:
    return WatchedNode(gradient_name(held.name), GRADIENT_TYPE, held.scope, GRADIENT, True)


class ParameterEvaluator:
    """Evaluates watches on parameters and gradients, without observing ops."""

    def __init__(self, trainee: Trainee, previous: PreviousValues, streaks: Streaks) -> None:
        self._trainee = trainee
        self._previous = previous
        self._streaks = streaks
        self._parameters: list[tuple[Held, NodeWatches]] = []
        self._gradients: dict[str, tuple[Held, NodeWatches]] = {}

    def plan(
        self, watches: Sequence[Watch], held: Sequence[Held], at_ops: Sequence[Watch] = ()
    ) -> None:
        """Evaluate ``watches`` on ``held`` from now on. Those of ``at_ops``, which are evaluated at
        ops, are also evaluated on gradients that they name, which are not the output of one op."""
        planned = ((each, NodeWatches.select(watches, parameter_node(each))) for each in held)
        self._parameters = [(each, selected) for each, selected in planned if selected]
        named = [watch for watch in at_ops if watch.names_gradients]
        self._gradients = {}
        for each in held:
            selected = NodeWatches.select([*watches, *named], gradient_node(each))
            if selected and each.is_weight:
                self._gradients[each.name] = each, selected

    @property
    def has_gradients(self) -> bool:
        return bool(self._gradients)

    def compared_with_previous(self) -> Iterator[Held]:
        """The parameters whose values of the previous step are needed."""
        return (held for held, watches in self._parameters if watches.needs.previous)

    @property
    def needs_changes(self) -> bool:
        """Whether the result depends on whether an optimizer stepped."""
        return any(
            watch.is_about_updates for _, watches in self._parameters for watch in watches.watches
        )

    def parameters(
        self,
        step: int,
        *,
        only: Container[str] | None = None,
        not_updated: Container[str] = (),
        excused: Container[str] = (),
    ) -> Iterator[Evaluation]:
        """Evaluate the parameters, or ``only`` some. On those that no optimizer updated in this
        step, conditions about their change are not evaluated; on those that are ``excused`` only
        conditions of a single step are, which a user has set."""
        for held, watches in self._parameters:
            if only is not None and held.name not in only:
                continue
            is_idle, is_excused = held.name in not_updated, held.name in excused
            if is_idle or is_excused:
                left_out = [
                    watch
                    for watch in watches.watches
                    if watch.is_about_updates and (is_idle or watch.steps_in_a_row > 1)
                ]
                self._streaks.carry(left_out, watches.op)
                rest = tuple(watch for watch in watches.watches if watch not in left_out)
                watches = replace(watches, watches=rest)
            tensor = LiveTensor(held.value(), self._trainee, watches.op, self._previous)
            yield from tensor.evaluate(watches, step)

    def gradients(self, names: Iterable[str], step: int) -> Iterator[Evaluation]:
        """Evaluate the gradients of these weights."""
        for name in names:
            if name not in self._gradients:
                continue
            held, watches = self._gradients[name]
            view = held.gradient()
            if view is not None:
                tensor = LiveTensor(view, self._trainee, watches.op, self._previous)
                yield from tensor.evaluate(watches, step)


class OpEvaluator:
    """Evaluates watches on the outputs of ops and leaves as they run."""

    def __init__(self, trainee: Trainee, previous: PreviousValues) -> None:
        self._trainee = trainee
        self._previous = previous
        self._watches: Sequence[Watch] = ()
        self._weights: set[str] = set()
        self._gradients: set[str] = set()
        self._statistics: StatisticsCache = {}
        self._planned: dict[str, NodeWatches] = {}

    def plan(self, watches: Sequence[Watch], held: Sequence[Held]) -> None:
        self._watches = watches
        self._planned.clear()
        self._weights = {each.name for each in held if each.is_weight}
        self._gradients = {gradient_name(name) for name in self._weights}

    @property
    def is_idle(self) -> bool:
        return not self._watches

    def begin_step(self) -> None:
        self._statistics.clear()

    def wants(self, node: OpNode) -> bool:
        return bool(self._watches) and bool(self._watches_of(node))

    def screen(self, nodes: Iterable[OpNode]) -> Sequence[Sequence[Tests]] | None:
        """The tests that clear all watches on the outputs of ``nodes``; None if there are no such
        tests for one of the watches."""
        watches = dict.fromkeys(watch for node in nodes for watch in self._watches_of(node).watches)
        found = [tests for watch in watches if (tests := watch.screen) is not None]
        return found if len(found) == len(watches) else None

    def applies_to(self, node: Node) -> bool:
        """Whether a watch applies to a node of a graph that was sent to the server."""
        return bool(self._watches) and bool(self._select(node, node.categories))

    def _watches_of(self, node: OpNode) -> NodeWatches:
        known = self._planned.get(node.name)
        if known is None:
            categories = categories_of(node, self._weights, self._gradients)
            known = self._planned[node.name] = self._select(node, categories)
        return known

    def _select(self, node: OpNode | Node, categories: Sequence[Category]) -> NodeWatches:
        """Gradients that a watch names are evaluated by ``ParameterEvaluator``."""
        is_gradient = "gradient" in categories
        watches = [each for each in self._watches if not (each.names_gradients and is_gradient)]
        described = WatchedNode(node.name, node.type, node.scope, categories, node.kind != "op")
        return NodeWatches.select(watches, described)

    def evaluate(
        self,
        call: OpCall,
        *,
        inputs_finite: bool | None = None,
        only: Sequence[TensorView] | None = None,
    ) -> Iterator[Evaluation]:
        """Evaluate the outputs of ``call``, or ``only`` some. ``inputs_finite``: if it is known."""
        watches = self._watches_of(call.node)
        if not watches:
            return

        def are_inputs_finite() -> bool:
            return has_finite_inputs(call) if inputs_finite is None else inputs_finite

        for view in call.outputs if only is None else only:
            if not view.is_filled:
                continue
            name = f"{call.node.name}:{view.slot}"
            tensor = LiveTensor(view, self._trainee, name, self._previous, self._statistics)
            yield from tensor.evaluate(watches, call.step, are_inputs_finite)

    def statistics(self, view: TensorView) -> Statistics | None:
        """The statistics of ``view``, whose values are read once a step; None if it has none."""
        return LiveTensor(view, self._trainee, cache=self._statistics).statistics()


def has_finite_inputs(call: OpCall) -> bool:
    """Whether ``call`` is an op and its inputs are finite; False for a leaf."""
    return call.node.kind == "op" and not any(
        view.is_filled and view.non_finite() for view in call.inputs
    )
