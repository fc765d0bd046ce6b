"""The debugger as a sink of a session: ops it wants to see, and ops that overflow."""

from __future__ import annotations

from collections.abc import Sequence

from sonde.capture.session import Subscription
from sonde.core.graph import OpNode
from sonde.core.selection import ALL_STEPS, StepSet
from sonde.core.sink import OpCall, Screen, StepEnd, TensorView
from sonde.debugger.debugger import Debugger
from sonde.dump.overflow_lane import OverflowLane

_NO_STEPS = StepSet(())


def subscription_of(debugger: Debugger) -> Subscription:
    return Subscription(DebuggerSink(debugger), _Request(debugger))


class _Request:
    """Asked anew at each step, and at each op when the debugger wants other ones."""

    def __init__(self, debugger: Debugger) -> None:
        self._debugger = debugger

    @property
    def steps(self) -> StepSet:
        return ALL_STEPS if self._debugger.wants_step(self._debugger.step) else _NO_STEPS

    def wants_op(self, node: OpNode) -> bool:
        return self._debugger.wants_op(node) or self._debugger.watching.needs_overflow


class DebuggerSink(OverflowLane):
    """Hands over the ops that are wanted, and the graph of each step that is observed. Ops that
    are only watched take the native shortcut: it brings those with something to tell."""

    def __init__(self, debugger: Debugger) -> None:
        super().__init__()
        self._debugger = debugger

    def screen(self, node: OpNode, leaves: Sequence[OpNode]) -> Screen | None:
        """Which runs of ``node``, with ``leaves`` before it, are wanted; None for all."""
        nodes = (node, *leaves)
        if any(map(self._debugger.must_see, nodes)):
            return None
        return self._debugger.watching.screen(nodes)

    def begin_step(self, step: int) -> None:
        self.begin_lane()
        self._debugger.begin_step()

    def has(self, view: TensorView) -> bool:
        return False

    def write(self, call: OpCall) -> None:
        # In this order: an op that overflows is known to when it is judged otherwise.
        if self._debugger.watching.needs_overflow:
            self._debugger.op_spoiled(call)
        if self._debugger.wants_op(call.node):
            self._debugger.op_ran(call)

    def end_step(self, end: StepEnd) -> None:
        self._debugger.graph_learned(end.graph)

    def drop_step(self) -> None:
        pass

    def close(self) -> None:
        pass
