"""The debugger as sinks of a session: one for ops it wants to see, one for ops that overflow."""

from __future__ import annotations

from sonde.capture.session import Subscription
from sonde.core.graph import OpNode
from sonde.core.selection import ALL_STEPS, StepSet
from sonde.core.sink import OpCall, StepEnd, TensorView
from sonde.debugger.debugger import Debugger
from sonde.dump.overflow_lane import OverflowLane

_NO_STEPS = StepSet(())


def subscriptions_of(debugger: Debugger) -> list[Subscription]:
    """In this order: an op that overflows is known to when the other sink meets it."""
    return [
        Subscription(OverflowSink(debugger), _OverflowRequest(debugger)),
        Subscription(OpSink(debugger), _OpRequest(debugger)),
    ]


class _OpRequest:
    """Asked anew at each step, and at each op when the debugger wants other ones."""

    def __init__(self, debugger: Debugger) -> None:
        self._debugger = debugger

    @property
    def steps(self) -> StepSet:
        return ALL_STEPS if self._debugger.wants_step(self._debugger.step) else _NO_STEPS

    def wants_op(self, node: OpNode) -> bool:
        return self._debugger.wants_op(node)


class _OverflowRequest(_OpRequest):
    def wants_op(self, node: OpNode) -> bool:
        return self._debugger.watching.needs_overflow


class OpSink:
    """Hands over the ops that are wanted, and the graph of each step that is observed."""

    def __init__(self, debugger: Debugger) -> None:
        self._debugger = debugger

    def begin_step(self, step: int) -> None:
        self._debugger.begin_step()

    def has(self, view: TensorView) -> bool:
        return False

    def write(self, call: OpCall) -> None:
        self._debugger.op_ran(call)

    def end_step(self, end: StepEnd) -> None:
        self._debugger.graph_learned(end.graph)

    def drop_step(self) -> None:
        pass

    def close(self) -> None:
        pass


class OverflowSink(OverflowLane):
    """Hands over ops with NaN or Inf; takes the native shortcut where nobody else wants them."""

    def __init__(self, debugger: Debugger) -> None:
        super().__init__()
        self._debugger = debugger

    def begin_step(self, step: int) -> None:
        self.begin_lane()

    def has(self, view: TensorView) -> bool:
        return False

    def write(self, call: OpCall) -> None:
        self._debugger.op_spoiled(call)

    def end_step(self, end: StepEnd) -> None:
        pass

    def drop_step(self) -> None:
        pass

    def close(self) -> None:
        pass
