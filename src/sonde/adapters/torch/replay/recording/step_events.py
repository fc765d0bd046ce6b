"""The events of the running step, as far as they are kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sonde.adapters.torch.replay.outside_ops import KnownTensors
from sonde.adapters.torch.replay.step_record import BackwardPass, Event, ModuleCall, ReplayProblem

MOST_EVENTS = 20_000
"""A program that never steps an optimizer must not fill the memory."""
MOST_UNUSED_CALLS = 64
"""Calls that no backward pass has reached, if they are large (`MOST_UNUSED_BYTES`). A program that
evaluates without ``no_grad`` makes many."""
MOST_UNUSED_BYTES = 256 * 2**20


class StepEvents:
    """Keeps the events in order, and bounds what is kept of calls that are never differentiated.
    ``ranks``: how many average the gradients of the step."""

    def __init__(self, known: KnownTensors) -> None:
        self._known = known
        self.events: list[Event] = []
        self.reasons: list[ReplayProblem] = []
        self.ranks = 1
        self._unchecked = 0

    def calls(self) -> Iterator[ModuleCall]:
        return (each for each in self.events if isinstance(each, ModuleCall))

    def last_backward(self) -> BackwardPass:
        return next(each for each in reversed(self.events) if isinstance(each, BackwardPass))

    def add(self, event: Event) -> None:
        if len(self.events) >= MOST_EVENTS:
            self.clear()
            self._known.clear()
            self.add_reason(ReplayProblem("call_not_kept", detail=str(MOST_EVENTS)))
        self.events.append(event)
        self._unchecked += isinstance(event, ModuleCall)
        if self._unchecked >= MOST_UNUSED_CALLS:
            self._unchecked = 0
            self._bound_calls()

    def add_reason(self, reason: ReplayProblem) -> None:
        if reason not in self.reasons:
            self.reasons.append(reason)

    def averaged_by(self, ranks: int) -> None:
        """So many ranks average the gradients."""
        if ranks > 1:
            self.ranks = ranks
            self.add_reason(ReplayProblem("reduced_gradients"))

    def carry_over(self, calls: Sequence[ModuleCall]) -> None:
        """Begin a step with ``calls`` of the last one."""
        self.events.extend(calls)
        for call in calls:
            for output in call.outputs:
                self._known.add(output.tensor)

    def clear(self) -> None:
        self.events.clear()
        self.reasons.clear()
        self.ranks = 1

    def _bound_calls(self) -> None:
        """Drop the older half of the calls that no backward pass has reached, if they are many and
        large."""
        pending = [each for each in self.calls() if each.is_pending]
        if len(pending) >= MOST_UNUSED_CALLS // 2 and _nbytes(pending) > MOST_UNUSED_BYTES:
            self._drop_before(pending[len(pending) // 2])
            self.add_reason(ReplayProblem("call_not_kept", pending[0].name))

    def _drop_before(self, call: ModuleCall) -> None:
        """Drop the events before ``call`` that no backward pass has used."""
        kept: list[Event] = []
        unused: list[Event] = []
        for position, event in enumerate(self.events):
            if event is call:
                kept += self.events[position:]
                break
            if isinstance(event, BackwardPass):
                kept += [*unused, event]
                unused = []
            elif not isinstance(event, ModuleCall) or event.is_pending:
                unused.append(event)
            else:
                kept.append(event)
        for event in unused:
            if isinstance(event, ModuleCall):
                self._known.discard(each.tensor for each in event.outputs)
            elif not isinstance(event, BackwardPass):
                self._known.discard(event.outputs)
        self.events[:] = kept


def _nbytes(calls: Sequence[ModuleCall]) -> int:
    tensors = [each.alias for call in calls for each in call.inputs]
    tensors += [each.tensor.alias for call in calls for each in call.outputs]
    return sum(each.numel() * each.element_size() for each in tensors)
