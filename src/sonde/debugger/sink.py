"""Connects the debugger to a capture session: the ops it observes, and ops that overflow."""

from __future__ import annotations

from collections.abc import Sequence

from sonde.capture.session import Subscription
from sonde.core.graph import OpNode
from sonde.core.selection import ALL_STEPS, StepSet
from sonde.core.sink import OpCall, Screen, ScreenPath, StepEnd, TensorView
from sonde.debugger.debugger import Debugger

_NO_STEPS = StepSet(())


def subscription_of(debugger: Debugger) -> Subscription:
    return Subscription(DebuggerSink(debugger), _Request(debugger))


class _Request:
    """What the debugger wants of the session, evaluated again at each step, and at each op after
    the debugger's wishes changed."""

    def __init__(self, debugger: Debugger) -> None:
        self._debugger = debugger

    @property
    def steps(self) -> StepSet:
        return ALL_STEPS if self._debugger.wants_step(self._debugger.step) else _NO_STEPS

    def wants_op(self, node: OpNode) -> bool:
        return self._debugger.wants_op(node) or self._debugger.watching.needs_overflow


class DebuggerSink:
    """Passes the ops that the debugger wants, and the graph of each observed step, to the debugger.
    Ops that are only watched take the native fast path, which passes on those that fail a screen.
    """

    def __init__(self, debugger: Debugger) -> None:
        self._debugger = debugger

    def fast_path(self) -> ScreenPath:
        return ScreenPath(self._screen)

    def _screen(self, node: OpNode, leaves: Sequence[OpNode]) -> Screen | None:
        """Which runs of ``node``, with its ``leaves``, to pass on; None for all."""
        nodes = (node, *leaves)
        if any(map(self._debugger.always_wants_op, nodes)):
            return None
        return self._debugger.watching.screen(nodes)

    def begin_step(self, step: int) -> None:
        self._debugger.begin_step()

    def has(self, view: TensorView) -> bool:
        return False

    def write(self, call: OpCall) -> None:
        # In this order: the evaluation of other conditions uses what is known of the overflow.
        if self._debugger.watching.needs_overflow:
            self._debugger.op_overflowed(call)
        if self._debugger.wants_op(call.node):
            self._debugger.op_ran(call)

    def end_step(self, end: StepEnd) -> None:
        self._debugger.graph_learned(end.graph)

    def drop_step(self) -> None:
        pass

    def close(self) -> None:
        pass
