"""Connects the debugger to a capture session: the ops it observes, and ops that overflow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from sonde.core.graph import OpNode
from sonde.core.selection import ALL_STEPS, StepSet
from sonde.core.sink import OpCall, Screen, ScreenPath, StepEnd, TensorView
from sonde.debugger.connection.controller import RankController
from sonde.debugger.parts import RankParts
from sonde.debugger.pauses import Pauses
from sonde.debugger.steps import ObservedSteps
from sonde.wire.rank import FirstStepProgress

_NO_STEPS = StepSet(())
_PROGRESS_OPS: Final = 200


class DebuggerSink:
    """Evaluates watchpoints on the ops of observed steps, and pauses after an op. Ops that are only
    watched take the native fast path, which passes on those that fail a screen.

    It is also the request of its subscription: ``steps`` and ``wants_op`` are evaluated again at
    each step, and at each op after ``Trainee.refresh``. ``begin`` is called before the first op.
    """

    def __init__(
        self,
        parts: RankParts,
        controller: RankController,
        pauses: Pauses,
        observed_steps: ObservedSteps,
        begin: Callable[[], None],
    ) -> None:
        self._parts = parts
        self._watching = parts.watching
        self._controller = controller
        self._pauses = pauses
        self._observed_steps = observed_steps
        self._begin = begin
        self._ops_ran = 0

    # --------------------------------------------------------------- request

    @property
    def steps(self) -> StepSet:
        step = self._parts.state.step
        if self._parts.speed.is_at(step):
            return _NO_STEPS
        is_wanted = (
            self._observed_steps.wants(step)
            or self._parts.control.needs_ops
            or self._watching.needs_ops
            or self._watching.needs_overflow
            or self._parts.recorder.needs_ops
        )
        return ALL_STEPS if is_wanted else _NO_STEPS

    def wants_op(self, node: OpNode) -> bool:
        if not self._parts.state.has_begun:
            self._begin()
        return self._watching.traces_origins or self._wants(node)

    def _wants(self, node: OpNode) -> bool:
        """Whether ``node`` is wanted for more than its overflow."""
        return self._watching.wants_op(node) or self._wants_any(node)

    def _wants_any(self, node: OpNode) -> bool:
        """Whether every run of ``node`` is wanted, whatever its values are."""
        return (
            self._parts.state.is_interrupted
            or self._parts.control.wants_op(node)
            or self._parts.recorder.wants_op(node)
        )

    # ------------------------------------------------------------------ sink

    def fast_path(self) -> ScreenPath:
        return ScreenPath(self._screen)

    def _screen(self, node: OpNode, leaves: Sequence[OpNode]) -> Screen | None:
        """Which runs of ``node``, with its ``leaves``, to pass on; None for all."""
        nodes = (node, *leaves)
        return None if any(map(self._wants_any, nodes)) else self._watching.screen(nodes)

    def begin_step(self, step: int) -> None:
        self._watching.begin_step(step)
        self._ops_ran = 0

    def has(self, view: TensorView) -> bool:
        return False

    def write(self, call: OpCall) -> None:
        if not self._parts.graphs.count:
            self._report_progress(call.step)
        # In this order: the evaluation of other conditions uses what is known of the overflow.
        if self._watching.traces_origins:
            with self._parts.trainee.unobserved():
                stop = self._watching.overflow(call)
            if stop is not None:
                self._pauses.pause_at(call, "hit", stop)
        if self._wants(call.node):
            self._op_ran(call)

    def _report_progress(self, step: int) -> None:
        """Tell the server how far the first step is: its graph is known when it has ended."""
        self._ops_ran += 1
        if self._ops_ran % _PROGRESS_OPS == 0:
            self._controller.session.send(FirstStepProgress(step, self._ops_ran), soon=True)

    def _op_ran(self, call: OpCall) -> None:
        parts = self._parts
        if self._controller.session.inbox:
            with parts.lookup.inside_step(call):
                self._controller.read_messages()
        with parts.trainee.unobserved():
            stop = self._watching.op(call)
            if parts.recorder.wants_op(call.node):
                parts.recorder.record(call)
        reason = parts.control.reason_at_op(call.node)
        if self._pauses.was_paused_at(call):
            pass  # It overflowed, and the user has continued since.
        elif stop is not None:
            self._pauses.pause_at(call, "hit", stop)
        elif reason is not None:
            self._pauses.pause_at(call, reason, "")
        self._pauses.end_if_asked(call)

    def end_step(self, end: StepEnd) -> None:
        """A step was observed to its end; send its graph if it is new."""
        for part in self._parts.graphs.learn(end.graph, self._parts.trainee.held()):
            self._controller.session.send(part)
        self._watching.end_ops(end.graph.nodes)
        self._watching.plan()

    def drop_step(self) -> None:
        pass

    def close(self) -> None:
        pass
