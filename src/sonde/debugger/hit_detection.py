"""Decides which watchpoints are evaluated when, and evaluates them as the training runs."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence

from sonde.core.errors import SondeError
from sonde.core.graph import OpNode
from sonde.core.sink import OpCall, Screen, TensorView
from sonde.debugger.live_evaluation import OpEvaluator, ParameterEvaluator
from sonde.debugger.live_hits import LiveHits
from sonde.debugger.trainee import Trainee
from sonde.debugger.values.graphs import GraphRegistry, gradient_name
from sonde.debugger.values.previous import PreviousValues
from sonde.watch.conditions.screen import needs_outline_only, screen_bytes
from sonde.watch.explanations import facts_of_call
from sonde.watch.origins import OriginTracker
from sonde.watch.streaks import Streaks
from sonde.watch.watchpoint import Watch, make_watches
from sonde.wire.shapes import HitRef, WatchpointSpec


class HitDetection:
    """The watchpoints of one rank. Used from the training thread only.

    Methods that evaluate watchpoints return the hit at which to pause the training, or None.
    ``report_invalid`` is called for a watchpoint that cannot be used.
    """

    def __init__(
        self,
        rank: int,
        trainee: Trainee,
        previous: PreviousValues,
        graphs: GraphRegistry,
        report_invalid: Callable[[SondeError], None],
    ) -> None:
        self._rank = rank
        self._trainee = trainee
        self._graphs = graphs
        self._report_invalid = report_invalid
        self._planned_for: object = None
        self._needs_ops = False
        self._traces_origins = False
        self._nodes: Sequence[OpNode] = ()
        streaks = Streaks()
        self._parameters = ParameterEvaluator(trainee, previous, streaks)
        self._initial = ParameterEvaluator(trainee, previous, streaks)
        self._ops = OpEvaluator(trainee, previous)
        self._overflows = OpEvaluator(trainee, previous)
        self._tracker = OriginTracker(self._non_finite, facts_of_call)
        self._reads_statistics = False
        self.hits = LiveHits(rank, trainee, graphs, self._tracker, streaks)
        self.specs: tuple[WatchpointSpec, ...] = ()
        self.watches: tuple[Watch, ...] = ()

    # --------------------------------------------------------------- planning

    def set(self, specs: Sequence[WatchpointSpec]) -> None:
        """Replace all watchpoints; one that is invalid is reported and ignored."""
        for spec in specs:
            if spec not in self.specs:
                self.hits.collector.forget(spec.id)
                self.hits.streaks.forget(spec.id)
        self.specs = tuple(specs)
        self.plan()

    def plan(self) -> None:
        """Find the tensors that watchpoints apply to, if parameters or graphs are new."""
        held = self._trainee.held()
        # A tensor may have been replaced by another one of the same name.
        basis = (self.specs, self._graphs.count, [(each, each.is_weight) for each in held])
        if basis == self._planned_for:
            return
        self._planned_for = basis
        self.hits.by_gradient = {gradient_name(each.name): each for each in held}
        names = {each.name for each in held}
        names |= {gradient_name(each.name) for each in held if each.is_weight}
        watches: list[Watch] = []
        for spec in self.specs:
            try:
                watches += make_watches([spec], self._rank, names)
            except SondeError as error:
                self._report_invalid(error)
        self.watches = tuple(watches)
        self._traces_origins = any(watch.is_about_non_finite for watch in watches)
        self._initial.plan([watch for watch in watches if watch.level == "initial"], held)
        at_ops = [watch for watch in watches if watch.level in ("op", "overflow")]
        self._parameters.plan([watch for watch in watches if watch.level == "step"], held, at_ops)
        self._ops.plan([watch for watch in watches if watch.level == "op"], held)
        self._overflows.plan([watch for watch in watches if watch.level == "overflow"], held)
        self._needs_ops = self._graphs.count == 0 or any(map(self._ops.applies_to, self._graphs))

    @property
    def needs_ops(self) -> bool:
        """Whether a watchpoint applies to ops that exist, as far as that is known."""
        return self._needs_ops and not self._ops.is_idle

    @property
    def needs_overflow(self) -> bool:
        return not self._overflows.is_idle

    @property
    def traces_origins(self) -> bool:
        """Whether the NaN and Inf of ops are traced in steps that are observed: also for watches on
        weights and gradients, which do not need the ops themselves."""
        return self._traces_origins

    @property
    def needs_gradients(self) -> bool:
        return self._parameters.has_gradients

    def wants_op(self, node: OpNode) -> bool:
        return self._ops.wants(node)

    def screen(self, nodes: Iterable[OpNode]) -> Screen | None:
        """Which runs of ``nodes``, an op and its leaves, are to be evaluated; None for all."""
        found = self._ops.screen(nodes)
        if found is None:
            return None
        tests = screen_bytes(found) if found else b""
        return Screen(tests, self._traces_origins, needs_outline_only(found))

    def compared_parameters(self) -> Iterable[str]:
        """The names of parameters whose values of the previous step are needed."""
        return (held.name for held in self._parameters.compared_with_previous())

    # ------------------------------------------------------------- evaluation

    def begin_step(self, step: int) -> None:
        self._nodes = ()
        self.hits.streaks.begin_step(step)
        self._tracker.begin_step()
        self._ops.begin_step()
        self._overflows.begin_step()
        self.hits.begin_step()

    def end_ops(self, nodes: Sequence[OpNode]) -> None:
        """The ops of the step, which are ``nodes``, are over."""
        self._nodes = nodes
        self.hits.end_ops(nodes)

    def end_step(self) -> None:
        self.hits.collector.end_step()

    def initial(self, names: Container[str], step: int) -> HitRef | None:
        """Evaluate the initial values of these parameters, which have not changed yet."""
        initial = self._initial.parameters(step, only=names)
        others = self._parameters.parameters(step, only=names, not_updated=names)
        return self.hits.add([*initial, *others], step)

    def parameters(self, step: int) -> HitRef | None:
        """Evaluate the parameters after an update."""
        self.hits.streaks.begin_step(step)
        needs_changes = self._parameters.needs_changes
        idle = self._trainee.left_alone() if needs_changes else ()
        excused = self._trainee.excused(self._nodes) if needs_changes else ()
        found = self._parameters.parameters(step, not_updated=idle, excused=excused)
        return self.hits.add(found, step)

    def gradients(self, names: Iterable[str], step: int) -> HitRef | None:
        """Evaluate the gradients of these weights, in the order in which they were computed: the
        first with NaN is the nearest to what made them."""
        found = self._parameters.gradients(names, step)
        return self.hits.add(sorted(found, key=lambda each: self.hits.order_of(each.op)), step)

    def op(self, call: OpCall) -> HitRef | None:
        """Evaluate the outputs of an op."""
        return self.hits.add(self._ops.evaluate(call), call.step, call)

    def overflow(self, call: OpCall) -> HitRef | None:
        """Trace and evaluate an op that may have NaN or Inf."""
        self._reads_statistics = self._ops.wants(call.node)
        unreadable = [view for view in call.outputs if view.problem and view.stored() is None]
        if unreadable:
            self.hits.add(self._overflows.evaluate(call, only=unreadable), call.step, call)
        traced = self._tracker.look(call)
        if traced is None:
            return None
        found = self._overflows.evaluate(
            call,
            inputs_finite=traced.is_producer and call.node.kind == "op",
            only=[view for view in call.outputs if view.slot in traced.bad_outputs],
        )
        self.hits.add_faults()
        return self.hits.add(found, call.step, call, traced)

    def _non_finite(self, view: TensorView) -> int:
        """Count NaN and Inf; from the statistics if those are needed, too, to read values once."""
        if self._reads_statistics and view.io == "output":
            statistics = self._ops.statistics(view)
            if statistics is not None:
                return statistics.non_finite_count
        return view.non_finite()
