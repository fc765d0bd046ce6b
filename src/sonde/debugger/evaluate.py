"""Asks the watches about tensors and says what they found."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

from sonde.core.errors import SondeError
from sonde.core.graph import OpNode
from sonde.core.keys import Io
from sonde.core.sink import OpCall, TensorView
from sonde.core.statistics import Statistics
from sonde.debugger.trainee import Held, Trainee
from sonde.debugger.values.graphs import GRADIENT_TYPE, gradient_name
from sonde.debugger.values.previous import PreviousValues
from sonde.watch.categories import GRADIENT, TENSOR, WEIGHT, categories_of
from sonde.watch.conditions import Evidence, Former, Judgement, Memory, Needs, measure
from sonde.watch.conditions.screen import Tests
from sonde.watch.watchpoint import Watch
from sonde.wire.shapes import Node, TensorType


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """A watch that was asked about a tensor, and did not say no."""

    watch: Watch
    op: str
    io: Io
    slot: int
    type: TensorType
    judgement: Judgement
    view: TensorView | None


@dataclass(frozen=True, slots=True, eq=False)
class _Planned:
    held: Held
    name: str
    watches: tuple[Watch, ...]
    needs: Needs

    @property
    def keeps_statistics(self) -> bool:
        """Whether the next step is compared with the numbers of this one."""
        return self.needs.previous or self.needs.previous_statistics


class HeldJudge:
    """Judges parameters and gradients where they are, without looking at ops."""

    def __init__(self, trainee: Trainee, former: PreviousValues) -> None:
        self._trainee = trainee
        self._former = former
        self._weights: list[_Planned] = []
        self._gradients: dict[str, _Planned] = {}

    def plan(
        self, watches: Sequence[Watch], held: Sequence[Held], of_ops: Sequence[Watch] = ()
    ) -> None:
        """From now on these are asked, of these. ``of_ops`` are asked at ops, and of gradients that
        they name, which no op stands for."""
        also = [watch for watch in of_ops if watch.names_gradients]
        planned = [
            (each, _plan(each, each.name, "Parameter", watches, is_gradient=False)) for each in held
        ]
        self._weights = [plan for _, plan in planned if plan is not None]
        self._gradients = {}
        for each in held:
            if each.is_weight:
                name = gradient_name(each.name)
                plan = _plan(each, name, GRADIENT_TYPE, [*watches, *also], is_gradient=True)
                if plan is not None:
                    self._gradients[each.name] = plan

    @property
    def is_idle(self) -> bool:
        return not self._weights and not self._gradients

    @property
    def has_gradients(self) -> bool:
        return bool(self._gradients)

    def needing_former_values(self) -> Iterator[Held]:
        return (plan.held for plan in self._weights if plan.needs.previous)

    @property
    def asks_for_changes(self) -> bool:
        """Whether it matters if an optimizer stepped."""
        return any(plan.needs.at_step_end for plan in self._weights)

    def weights(
        self,
        step: int,
        *,
        only: Container[str] | None = None,
        left_alone: Container[str] = (),
    ) -> Iterator[Found]:
        """Of the weights, or of ``only`` these. Those ``left_alone`` by their optimizers in this
        step are not asked how they changed."""
        for plan in self._weights:
            if only is not None and plan.name not in only:
                continue
            watches = plan.watches
            if plan.needs.at_step_end and plan.name in left_alone:
                watches = tuple(watch for watch in watches if not watch.needs.at_step_end)
            yield from self._judge(plan, plan.held.value(), step, watches)

    def gradients(self, names: Iterable[str], step: int) -> Iterator[Found]:
        """Of the gradients of these weights."""
        for name in names:
            plan = self._gradients.get(name)
            view = None if plan is None else plan.held.gradient()
            if plan is not None and view is not None:
                yield from self._judge(plan, view, step, plan.watches)

    def _judge(
        self, plan: _Planned, view: TensorView, step: int, watches: Sequence[Watch]
    ) -> Iterator[Found]:
        memory = self._trainee.memory(view)
        if isinstance(memory, str):
            count = self._trainee.non_finite(view)
            evidence = Evidence(missing=memory, inputs_finite=False, non_finite=count, step=step)
            yield from _found(watches, plan.name, view, evidence)
            return
        statistics = _summary(memory)
        waiting = _unsure(watches, statistics)
        if waiting:
            evidence = measure(
                memory,
                plan.needs,
                former=self._former_of(plan),
                statistics=statistics,
                inputs_finite=False,  # No op, so that it does not produce NaN or Inf.
                step=step,
            )
            yield from _found(waiting, plan.name, view, evidence)
        if statistics is not None and plan.keeps_statistics:
            self._former.note(plan.name, step, statistics)

    def _former_of(self, plan: _Planned) -> Former | None:
        if not plan.needs.previous and not plan.needs.previous_statistics:
            return None
        copy = self._former.find(plan.name)
        memory = None if copy is None else self._trainee.memory(copy[1])
        return Former(
            memory if isinstance(memory, Memory) else None,
            self._former.statistics(plan.name),
            self._former.why_missing(plan.name),
        )


def _plan(
    held: Held, name: str, kind: str, watches: Sequence[Watch], *, is_gradient: bool
) -> _Planned | None:
    categories = GRADIENT if is_gradient else WEIGHT if held.is_weight else TENSOR
    wanted = tuple(
        watch
        for watch in watches
        if watch.aims_at(name, kind, held.scope, categories, is_leaf=True)
    )
    if not wanted:
        return None
    return _Planned(held, name, wanted, reduce(or_, (each.needs for each in wanted)))


class OpJudge:
    """Judges the outputs of ops and leaves as they come."""

    def __init__(self, trainee: Trainee, former: PreviousValues) -> None:
        self._trainee = trainee
        self._former = former
        self._watches: Sequence[Watch] = ()
        self._weights: set[str] = set()
        self._gradients: set[str] = set()
        # Statistics by contents and number of elements, in this step: the same values are read
        # once, what ``expand`` repeats is another tensor.
        self._known: dict[tuple[object, int], Statistics] = {}
        # Who asks about an op, by its name.
        self._asking: dict[str, tuple[tuple[Watch, ...], Needs]] = {}

    def plan(self, watches: Sequence[Watch], held: Sequence[Held]) -> None:
        self._watches = watches
        self._asking.clear()
        self._weights = {each.name for each in held if each.is_weight}
        self._gradients = {gradient_name(name) for name in self._weights}

    @property
    def is_idle(self) -> bool:
        return not self._watches

    def begin_step(self) -> None:
        self._known.clear()

    def wants(self, node: OpNode) -> bool:
        return bool(self._watches_of(node)[0])

    def screen(self, nodes: Iterable[OpNode]) -> Sequence[Sequence[Tests]] | None:
        """What the outputs of ``nodes`` must pass so that nobody has anything to tell of them;
        None if that cannot be said in advance."""
        wanted = dict.fromkeys(watch for node in nodes for watch in self._watches_of(node)[0])
        found = [tests for watch in wanted if (tests := watch.screen) is not None]
        return found if len(found) == len(wanted) else None

    def aims_at(self, node: Node) -> bool:
        """Whether anything is asked of a node that the server was told of."""
        return any(
            watch.aims_at(
                node.name, node.type, node.scope, node.categories, is_leaf=node.kind != "op"
            )
            for watch in self._watches
            if not (watch.names_gradients and "gradient" in node.categories)
        )

    def _watches_of(self, node: OpNode) -> tuple[tuple[Watch, ...], Needs]:
        known = self._asking.get(node.name)
        if known is None:
            categories = categories_of(node, self._weights, self._gradients)
            is_leaf = node.kind != "op"
            wanted = tuple(
                watch
                for watch in self._watches
                if not (watch.names_gradients and categories is GRADIENT)
                and watch.aims_at(node.name, node.type, node.scope, categories, is_leaf=is_leaf)
            )
            needs = reduce(or_, (watch.needs for watch in wanted), Needs())
            known = self._asking[node.name] = (wanted, needs)
        return known

    def judge(
        self,
        call: OpCall,
        *,
        inputs_finite: bool | None = None,
        only: Sequence[TensorView] | None = None,
    ) -> Iterator[Found]:
        """Ask of the outputs, or of ``only`` these. Most are cleared by their statistics; evidence
        is gathered for those who are not sure then."""
        wanted, needs = self._watches_of(call.node)
        if not wanted:
            return
        for view in call.outputs if only is None else only:
            if not view.is_filled:
                continue
            statistics = self.statistics(view)
            waiting = _unsure(wanted, statistics)
            name = f"{call.node.name}:{view.slot}" if needs.previous_statistics else ""
            if waiting:
                if needs.inputs and inputs_finite is None:
                    inputs_finite = has_finite_inputs(call)
                before = Former(None, self._former.statistics(name)) if name else None
                evidence = self._evidence(view, needs, before, statistics, inputs_finite, call.step)
                yield from _found(waiting, call.node.name, view, evidence)
            if name and statistics is not None:
                self._former.note(name, call.step, statistics)

    def statistics(self, view: TensorView) -> Statistics | None:
        """Of the values of ``view``, which are read once a step; None where there are none."""
        token = view.values_token
        key = (token, view.numel)
        known = None if token is None else self._known.get(key)
        if known is not None:
            return known
        memory = self._trainee.memory(view)
        known = None if isinstance(memory, str) else _summary(memory)
        if known is not None and token is not None:
            self._known[key] = known
        return known

    def _evidence(
        self,
        view: TensorView,
        needs: Needs,
        former: Former | None,
        statistics: Statistics | None,
        inputs_finite: bool | None,
        step: int,
    ) -> Evidence:
        memory = self._trainee.memory(view)
        if isinstance(memory, str):
            return Evidence(
                missing=memory,
                inputs_finite=inputs_finite,
                non_finite=self._trainee.non_finite(view),
                step=step,
            )
        return measure(
            memory,
            needs,
            former=former,
            statistics=statistics,
            inputs_finite=inputs_finite,
            step=step,
        )


def has_finite_inputs(call: OpCall) -> bool:
    """Whether ``call`` is an op and its inputs are finite; a leaf is none."""
    return call.node.kind == "op" and not any(
        view.is_filled and view.non_finite() for view in call.inputs
    )


def _summary(memory: Memory) -> Statistics | None:
    """None of a type that has no statistics; why, ``measure`` says."""
    try:
        return memory.summarize()
    except SondeError:
        return None


def _unsure(watches: Sequence[Watch], statistics: Statistics | None) -> Sequence[Watch]:
    """Those that these numbers do not clear."""
    if statistics is None:
        return watches
    return [watch for watch in watches if not watch.clears(statistics)]


def _found(
    watches: Iterable[Watch], op: str, view: TensorView, evidence: Evidence
) -> Iterator[Found]:
    for watch in watches:
        judgement = watch.judge(evidence)
        if judgement.verdict != "clear":
            type_ = TensorType(view.dtype, view.shape)
            yield Found(watch, op, view.io, view.slot, type_, judgement, view)
