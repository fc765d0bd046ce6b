"""Makes hits of what the evaluation of a running training finds, and decides where to pause."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from sonde.core.graph import OpNode
from sonde.core.sink import OpCall, TensorView
from sonde.debugger.live_evaluation import LiveTensor
from sonde.debugger.trainee import Held, Trainee
from sonde.debugger.values.graphs import GraphRegistry
from sonde.watch.evaluate import Evaluation, add_origin, make_hit
from sonde.watch.headline import origin_headline
from sonde.watch.hit_text import chain_from
from sonde.watch.hits import HitCollector, Part, WatchpointHit
from sonde.watch.origins import Origin, OriginTracker, Traced
from sonde.watch.streaks import Streaks
from sonde.watch.watchpoint import Watch
from sonde.wire.convert import headline_text, shown_line
from sonde.wire.shapes import HitRef


class LiveHits:
    """The hits of one rank. Used from the training thread only.

    ``by_gradient``: the parameters whose gradients may be evaluated, by the gradients' names.
    """

    def __init__(
        self,
        rank: int,
        trainee: Trainee,
        graphs: GraphRegistry,
        tracker: OriginTracker,
        streaks: Streaks,
    ) -> None:
        self._rank = rank
        self._trainee = trainee
        self._graphs = graphs
        self._tracker = tracker
        self.streaks = streaks
        # The numbers of the origins for which the training has paused.
        self._paused_for: set[int] = set()
        # Hits of this step that are added if their origin turns out to be a fault.
        self._pending: dict[Origin, list[WatchpointHit]] = {}
        self.by_gradient: Mapping[str, Held] = {}
        self.collector = HitCollector()

    def begin_step(self) -> None:
        self._pending.clear()

    def end_ops(self, nodes: Iterable[OpNode]) -> None:
        """The ops of the step are over: withdraw the hits of values that are no fault."""
        self._tracker.end_step(nodes)
        self.add_faults()
        for origin, hits in self._pending.items():
            for hit in hits:
                self.collector.add(hit.withdrawn(origin))
        self._pending.clear()
        self.collector.end_ops()

    def add_faults(self) -> None:
        """Add the pending hits of origins that are known to be a fault now."""
        for origin in [each for each in self._pending if each.is_fault]:
            for hit in self._pending.pop(origin):
                self.collector.add(hit, origin)

    def add(
        self,
        found: Iterable[Evaluation],
        step: int,
        call: OpCall | None = None,
        traced: Traced | None = None,
    ) -> HitRef | None:
        """Add hits for ``found``; return the first one at which to pause.

        ``call`` is the op they are of, ``traced`` the origin of its NaN and Inf.
        """
        stop = None
        for each in found:
            if traced is not None and self._is_counted(each, step, traced):
                continue
            hit = self._hit(each, step, call, traced)
            admitted = self.streaks.admit(hit, each.watch)
            if admitted is None:
                continue
            hit = admitted
            is_named = each.watch.names(each.op)
            origin = None if traced is None or is_named else traced.origin
            if hit.verdict == "hit" and origin is not None and not origin.is_listed:
                self._pending.setdefault(origin, []).append(hit)
                continue
            total = self.collector.add(hit, origin)
            may_pause = is_named or not self._is_inherited(call, traced)
            if hit.verdict != "hit" or not may_pause or not _is_due(each.watch, total):
                continue
            is_new = self._is_new_cause(each, traced)
            if is_named or is_new:
                stop = stop or _reference(hit, each.watch)
        return stop

    def _is_counted(self, found: Evaluation, step: int, traced: Traced) -> bool:
        """Whether the tensor got its values from a known origin in an earlier step, too, so that
        its hit was counted. A hit at which the training may pause is not only counted."""
        watch, origin, tensor = found.watch, traced.origin, found.tensor
        is_simple = watch.level == "overflow" and watch.steps_in_a_row <= 1
        if traced.is_producer or not origin.is_fault or not is_simple or watch.names(found.op):
            return False
        if watch.spec.break_after and origin.number not in self._paused_for:
            return False
        return self.collector.count_carrier(
            (origin.op, watch.spec.id, found.op, tensor.io, tensor.slot), step
        )

    def _is_inherited(self, call: OpCall | None, traced: Traced | None) -> bool:
        """Whether ``call`` is a leaf with values of an earlier step that this step may not use: the
        loss that is printed, a gradient that is set to zero."""
        if call is None or traced is None or traced.is_producer or call.node.kind == "op":
            return False
        if traced.origin.step >= call.step:
            return False
        return call.node.kind != "parameter" or call.node.name in self.by_gradient

    def _is_new_cause(self, found: Evaluation, traced: Traced | None) -> bool:
        """Whether the training has not paused yet for the origin of the values of ``found``: what
        got them from an origin that the user has seen is listed, whatever watchpoint finds it, and
        does not pause the training again."""
        origin = self._known_origin(found) if traced is None else traced.origin
        if origin is None:
            return True
        is_new = origin.number not in self._paused_for
        self._paused_for.add(origin.number)
        return is_new

    def _known_origin(self, found: Evaluation) -> Origin | None:
        """The origin of the NaN and Inf of a tensor that is not traced at its op."""
        view = _view_of(found)
        known = None if view is None else self._tracker.origin_in(view.memory)
        return known if known is not None and view is not None and view.non_finite() else None

    def _hit(
        self, found: Evaluation, step: int, call: OpCall | None, traced: Traced | None
    ) -> WatchpointHit:
        source = None if call is None else call.node.source
        order = self.order_of(found.op, call)
        hit = make_hit(found, step, order, rank=self._rank, source=source)
        if traced is not None:
            return add_origin(hit, traced, self._tracker.chain(found.op))
        known = self._known_origin(found) if call is None else None
        if known is None:
            return hit
        chain = chain_from(known.op, self._chain_to_parameter(found.op))
        is_hit = hit.verdict == "hit"
        return replace(
            hit,
            part="carrier",
            origin=known.op,
            chain=chain,
            status="established" if is_hit else hit.status,
            headline=origin_headline(known) if is_hit else None,
        )

    def is_decided(self, found: Evaluation) -> bool:
        """Whether the running step has decided about the NaN and Inf of ``found`` already: the
        tensor of an op was listed if they are a fault; weights and gradients, if they are not."""
        traced = self._tracker.traced(found.op)
        origin = None if traced is None else traced.origin
        view = _view_of(found)
        if origin is None and view is not None:
            origin = self._tracker.origin_in(view.memory)
        return origin is not None and (found.watch.level == "overflow" or not origin.is_listed)

    def hit_at_pause(
        self, found: Evaluation, step: int, call: OpCall | None, *, is_producer: bool | None
    ) -> WatchpointHit:
        """The hit of a tensor that was computed before the check. ``is_producer``: whether its op
        produced the non-finite values, if that is known."""
        hit = self._hit(found, step, call, None)
        if is_producer is not None:
            origin = found.op if is_producer else None
            chain = () if origin is None else (origin,)
            part: Part = "producer" if is_producer else "carrier"
            hit = replace(hit, part=part, origin=origin, chain=chain)
        node = self._graphs.node(found.op) if hit.source is None else None
        if node is not None and node.sources:
            hit = replace(hit, source=shown_line(node.sources))
        return hit

    def _chain_to_parameter(self, name: str) -> tuple[str, ...]:
        """The chain to a parameter, or to a gradient through the op that computed it."""
        held = self.by_gradient.get(name)
        maker = None if held is None else held.gradient_maker
        return (name,) if maker is None else (*self._tracker.chain(maker[0]), name)

    def order_of(self, name: str, call: OpCall | None = None) -> int:
        """The place in the step where the tensor was computed, or is first used. Several ops may
        have changed a gradient since: its place is that of the last op, if ops are observed."""
        if call is not None:
            return call.order
        held = self.by_gradient.get(name)
        if held is not None:
            place = self._trainee.place()
            if place is not None:
                return place
            name = name if held.gradient_maker is None else held.gradient_maker[0]
        return self._graphs.order_of(name) or 0


def _view_of(found: Evaluation) -> TensorView | None:
    """The live tensor; None for cached values."""
    return found.tensor.view if isinstance(found.tensor, LiveTensor) else None


def _is_due(watch: Watch, total: int) -> bool:
    """Whether the watchpoint pauses the training at its ``total``-th hit."""
    every = watch.spec.break_after
    return every > 0 and total % every == 0


def _reference(hit: WatchpointHit, watch: Watch) -> HitRef:
    name = watch.spec.name or f"watchpoint {watch.spec.id}"
    where = hit.where
    place = (where.step, where.op, where.io, where.slot)
    return HitRef(hit.watchpoint, name, hit.rule, *place, headline_text(hit.headline), hit.origin)
