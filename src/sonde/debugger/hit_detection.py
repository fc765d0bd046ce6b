"""The watchpoints of a rank at work: what is asked when, which hits there are, when to stop."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence

import msgspec

from sonde.core.errors import SondeError
from sonde.core.graph import OpNode
from sonde.core.sink import OpCall, Screen, TensorView
from sonde.debugger.evaluate import Found, HeldJudge, OpJudge
from sonde.debugger.hit_text import wire_value
from sonde.debugger.hits import HitCollector
from sonde.debugger.trainee import Held, Trainee
from sonde.debugger.values.graphs import GraphRegistry, gradient_name
from sonde.debugger.values.previous import PreviousValues
from sonde.watch.conditions.screen import needs_outline_only, screen_bytes
from sonde.watch.hit_text import chain_from, since, why_expected
from sonde.watch.origins import Origin, OriginTracker, Traced
from sonde.watch.watchpoint import Watch, make_watches
from sonde.wire.convert import source_line
from sonde.wire.shapes import Hit, HitRef, Part, WatchpointSpec


class Watching:
    """Used from the training thread only. What may stop the training returns the hit at
    which to stop, or None."""

    def __init__(
        self,
        rank: int,
        trainee: Trainee,
        former: PreviousValues,
        graphs: GraphRegistry,
        complain: Callable[[SondeError], None],
    ) -> None:
        self._rank = rank
        self._trainee = trainee
        self._graphs = graphs
        self._complain = complain
        self._former = former
        self._basis: object = None
        self._needs_ops = False
        # By the names of their gradients: those that are planned for.
        self._with_gradient: dict[str, Held] = {}
        self._overflow: tuple[Watch, ...] = ()
        self._held = HeldJudge(trainee, former)
        self._initial = HeldJudge(trainee, former)
        self._ops = OpJudge(trainee, former)
        self._bad_ops = OpJudge(trainee, former)
        self._tracker = OriginTracker(self._non_finite)
        self._is_read_anyway = False
        self._stopped_for: set[tuple[int, int]] = set()
        # In this step: what is a hit should the origin turn out to be a fault.
        self._pending: dict[Origin, list[Hit]] = {}
        self.hits = HitCollector()
        self.specs: tuple[WatchpointSpec, ...] = ()
        self.watches: tuple[Watch, ...] = ()

    # ---------------------------------------------------------- what is asked

    def set(self, specs: Sequence[WatchpointSpec]) -> None:
        """These watchpoints and no others; one that is wrong is complained about and left out."""
        before = {spec.id: spec for spec in self.specs}
        for spec in specs:
            if before.get(spec.id) != spec:
                self.hits.forget(spec.id)
        self.specs = tuple(specs)
        self.plan()

    def plan(self) -> None:
        """Find out again what the watchpoints are about: parameters and graphs may be new."""
        held = self._trainee.held()
        # Another tensor may have taken the place, and the name, of one.
        basis = (self.specs, self._graphs.count, [(each, each.is_weight) for each in held])
        if basis == self._basis:
            return
        self._basis = basis
        self._with_gradient = {gradient_name(each.name): each for each in held}
        names = {each.name for each in held}
        names |= {gradient_name(each.name) for each in held if each.is_weight}
        watches: list[Watch] = []
        for spec in self.specs:
            try:
                watches += make_watches([spec], self._rank, names)
            except SondeError as error:
                self._complain(error)
        self.watches = tuple(watches)
        self._overflow = tuple(watch for watch in watches if watch.level == "overflow")
        self._initial.plan([watch for watch in watches if watch.level == "initial"], held)
        at_ops = [watch for watch in watches if watch.level in ("op", "overflow")]
        self._held.plan([watch for watch in watches if watch.level == "step"], held, at_ops)
        self._ops.plan([watch for watch in watches if watch.level == "op"], held)
        self._bad_ops.plan(self._overflow, held)
        self._needs_ops = self._graphs.count == 0 or any(map(self._ops.aims_at, self._graphs))

    @property
    def needs_ops(self) -> bool:
        """Whether a watchpoint asks of ops that there are, as far as that is known."""
        return self._needs_ops and not self._ops.is_idle

    @property
    def needs_overflow(self) -> bool:
        return bool(self._overflow)

    @property
    def needs_gradients(self) -> bool:
        return self._held.has_gradients

    @property
    def needs_parameters(self) -> bool:
        return not self._held.is_idle

    def wants_op(self, node: OpNode) -> bool:
        return self._ops.wants(node)

    def screen(self, nodes: Iterable[OpNode]) -> Screen | None:
        """Which of ``nodes``, an op and its leaves, are worth a look; None for all."""
        found = self._ops.screen(nodes)
        if found is None:
            return None
        tests = screen_bytes(found) if found else b""
        return Screen(tests, self.needs_overflow, needs_outline_only(found))

    def needing_former_values(self) -> Iterable[str]:
        return (held.name for held in self._held.needing_former_values())

    # -------------------------------------------------------------- occasions

    def begin_step(self) -> None:
        self._tracker.begin_step()
        self._ops.begin_step()
        self._bad_ops.begin_step()
        self._stopped_for.clear()
        self._pending.clear()

    def end_step(self) -> None:
        self.hits.end_step()

    def initial(self, names: Container[str], step: int) -> HitRef | None:
        """Evaluate the weights that the run begins with; there is no change to evaluate yet."""
        initial = self._initial.weights(step, only=names)
        return self._take([*initial, *self._held.weights(step, only=names, left_alone=names)], step)

    def weights(self, step: int) -> HitRef | None:
        left_alone = self._trainee.left_alone() if self._held.asks_for_changes else ()
        return self._take(self._held.weights(step, left_alone=left_alone), step)

    def gradients(self, names: Iterable[str], step: int) -> HitRef | None:
        return self._take(self._held.gradients(names, step), step)

    def op(self, call: OpCall) -> HitRef | None:
        return self._take(self._ops.judge(call), call.step, call)

    def overflow(self, call: OpCall) -> HitRef | None:
        """An op that may have NaN or Inf."""
        self._is_read_anyway = self._ops.wants(call.node)
        unseen = [view for view in call.outputs if view.problem and view.stored() is None]
        if unseen:
            self._take(self._bad_ops.judge(call, only=unseen), call.step, call)
        traced = self._tracker.look(call)
        if traced is None:
            return None
        found = self._bad_ops.judge(
            call,
            inputs_finite=traced.is_producer and call.node.kind == "op",
            only=[view for view in call.outputs if view.slot in traced.bad_outputs],
        )
        self._release()
        return self._take(found, call.step, call, traced)

    def settle(self, nodes: Iterable[OpNode]) -> None:
        """The ops of the step are over: hits of what is no fault are taken back."""
        self._tracker.end_step(nodes)
        self._release()
        for origin, hits in self._pending.items():
            for hit in hits:
                self.hits.add_undecided(hit, why_expected(origin))
        self._pending.clear()
        self.hits.settle(why_expected)

    def _release(self) -> None:
        """Make hits of what waited for an origin that is a fault now."""
        for origin in [each for each in self._pending if each.is_fault]:
            for hit in self._pending.pop(origin):
                self.hits.add(hit)

    def _non_finite(self, view: TensorView) -> int:
        """From the statistics that are asked for next, where they are, so that it is read once."""
        if self._is_read_anyway and view.io == "output":
            statistics = self._ops.statistics(view)
            if statistics is not None:
                return statistics.non_finite_count
        return view.non_finite()

    # ------------------------------------------------------------------- hits

    def _take(
        self,
        found: Iterable[Found],
        step: int,
        call: OpCall | None = None,
        traced: Traced | None = None,
    ) -> HitRef | None:
        """Make hits of what was found; the first one at which to stop."""
        stop = None
        for each in found:
            hit = self._hit(each, step, call, traced)
            origin = None if traced is None or each.watch.names(hit.op) else traced.origin
            if hit.verdict == "hit" and origin is not None and not origin.is_listed:
                self._pending.setdefault(origin, []).append(hit)
                continue
            total = self.hits.add(hit, origin)
            is_over = self._is_left_over(call, traced) and not each.watch.names(each.op)
            if hit.verdict == "hit" and not is_over and self._stops(each, total, traced):
                stop = stop or _reference(hit, each.watch)
        return stop

    def _is_left_over(self, call: OpCall | None, traced: Traced | None) -> bool:
        """Whether it is something an earlier step left, which nothing need come of any more: its
        loss that is printed, a gradient that is set to zero."""
        if call is None or traced is None or traced.is_producer or call.node.kind == "op":
            return False
        if traced.origin.step >= call.step:
            return False
        return call.node.kind != "parameter" or call.node.name in self._with_gradient

    def _stops(self, found: Found, total: int, traced: Traced | None) -> bool:
        watch = found.watch
        every = watch.spec.break_after
        if every <= 0 or total % every:
            return False
        origin = None if traced is None else traced.origin
        if origin is None and watch.level == "overflow" and found.view is not None:
            origin = self._tracker.origin_in(found.view.memory)
        if origin is not None:
            # Once an origin: what only carries on what it made is listed, and stops nobody.
            key = (watch.spec.id, origin.number)
            if key in self._stopped_for:
                return False
            self._stopped_for.add(key)
        return True

    def _hit(self, found: Found, step: int, call: OpCall | None, traced: Traced | None) -> Hit:
        part: Part = "other"
        origin: str | None = None
        chain: tuple[str, ...] = ()
        why = found.judgement.why
        if traced is not None:
            part = "producer" if traced.is_producer else "carrier"
            origin = traced.origin.op
            if found.judgement.verdict == "hit":
                why += since(found.op, traced, step)
            chain = chain_from(origin, self._tracker.chain(found.op))
        elif call is None and found.view is not None:
            known = self._tracker.origin_in(found.view.memory)
            if known is not None and found.view.non_finite():
                part, origin = "carrier", known.op
                chain = chain_from(origin, self._chain_to_held(found.op))
        source = None if call is None else call.node.source
        return Hit(
            number=0,
            watchpoint=found.watch.spec.id,
            condition=found.watch.label,
            rank=self._rank,
            step=step,
            order=self._order(found.op, call),
            op=found.op,
            io=found.io,
            slot=found.slot,
            type=found.type,
            verdict="undecided" if found.judgement.verdict == "undecided" else "hit",
            why=why,
            values=tuple(wire_value(value) for value in found.judgement.values),
            part=part,
            origin=origin,
            chain=chain,
            source=None if source is None else source_line(source),
        )

    def has_judged(self, watch: Watch, op: str, view: TensorView | None) -> bool:
        """Whether the step that goes by has judged these NaN and Inf already: as an op's, which
        was listed if they are a fault; as those of a weight or gradient, if they are none."""
        traced = self._tracker.traced(op)
        origin = None if traced is None else traced.origin
        if origin is None and view is not None:
            origin = self._tracker.origin_in(view.memory)
        return origin is not None and (watch.level == "overflow" or not origin.is_listed)

    def late_hit(
        self, found: Found, step: int, call: OpCall | None, *, is_producer: bool | None
    ) -> Hit:
        """What was found of a tensor that was made before somebody asked. ``is_producer``: whether
        its op made what is not finite, where that is known."""
        hit = self._hit(found, step, call, None)
        if is_producer is not None:
            origin = hit.op if is_producer else None
            part: Part = "producer" if is_producer else "carrier"
            chain = () if origin is None else (origin,)
            hit = msgspec.structs.replace(hit, part=part, origin=origin, chain=chain)
        node = self._graphs.node(found.op) if hit.source is None else None
        if node is not None and node.sources:
            hit = msgspec.structs.replace(hit, source=node.sources[0])
        return hit

    def _chain_to_held(self, name: str) -> tuple[str, ...]:
        """To a weight, or to a gradient through the op that made it."""
        held = self._with_gradient.get(name)
        maker = None if held is None else held.gradient_maker
        return (name,) if maker is None else (*self._tracker.chain(maker[0]), name)

    def _order(self, name: str, call: OpCall | None) -> int:
        """Where in its step the tensor was made, or is first used; of a gradient, which several
        ops may have changed since it was made, where the step is now, as far as that is known."""
        if call is not None:
            return call.order
        held = self._with_gradient.get(name)
        if held is not None:
            place = self._trainee.place()
            if place is not None:
                return place
            name = name if held.gradient_maker is None else held.gradient_maker[0]
        return self._graphs.order_of(name) or 0


def _reference(hit: Hit, watch: Watch) -> HitRef:
    name = watch.spec.name or f"watchpoint {watch.spec.id}"
    return HitRef(hit.watchpoint, name, hit.condition, hit.step, hit.op, hit.io, hit.slot)
