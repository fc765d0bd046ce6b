"""Which of the ops outside of modules a replay needs: those that gradients come from."""

from __future__ import annotations

from sonde.adapters.torch.replay.kept_tensor import KeptTensor
from sonde.adapters.torch.replay.step_record import (
    BackwardPass,
    Event,
    ModuleCall,
    OutsideOp,
)


def needed_events(events: list[Event]) -> list[Event]:
    """``events`` without the calls and ops that no backward pass uses, and that change no gradient:
    evaluations, sums for a log, metrics. A call that raised is the last event, or not needed."""
    needed = _Needed()
    found: list[Event] = []
    for event in reversed(events):
        if isinstance(event, BackwardPass):
            if event.error is not None and event is not events[-1]:
                continue
            needed.add(*event.roots, *event.gradients, *(event.inputs or ()))
        elif isinstance(event, OutsideOp):
            if not _is_needed_op(event, needed) and not (event.error and event is events[-1]):
                continue
            needed.add(*event.inputs)
        else:
            if not _is_needed_call(event, needed) and event is not events[-1]:
                continue
            needed.add(*event.inputs)
        found.append(event)
    found.reverse()
    return found


def used_by_ops(events: list[Event]) -> set[int]:
    """Ids of the kept tensors that ops outside of modules use, also as they were earlier."""
    used = _Needed()
    for event in events:
        if isinstance(event, OutsideOp):
            used.add(*event.inputs)
    return used.tensors


class _Needed:
    """Tensors that a later event uses, and the memory that they are in."""

    def __init__(self) -> None:
        self.tensors: set[int] = set()
        self._memory: set[int | None] = set()

    def add(self, *tensors: KeptTensor | None) -> None:
        for tensor in tensors:
            while tensor is not None:
                self.tensors.add(id(tensor))
                self._memory.add(tensor.memory)
                tensor = tensor.earlier
        self._memory.discard(None)

    def has(self, tensor: KeptTensor) -> bool:
        return id(tensor) in self.tensors

    def shares_memory(self, tensor: KeptTensor) -> bool:
        return tensor.memory in self._memory


def _is_needed_call(call: ModuleCall, needed: _Needed) -> bool:
    if call.error is not None:
        return False
    return call.backward is not None or any(needed.has(each.tensor) for each in call.outputs)


def _is_needed_op(op: OutsideOp, needed: _Needed) -> bool:
    if op.error is not None:
        return False
    if op.name in ("__set__", "__delete__"):
        return True
    if any(needed.has(each) for each in op.outputs):
        return True
    if op.name in ("register_hook", "retain_grad"):
        return any(needed.has(each) for each in op.inputs)
    if any(needed.shares_memory(after) for _, after in op.written):
        return True
    # Gradients of parameters are what a replay is compared by; they have no user in the record.
    return any(before.leaf is not None and not before.requires_grad for before, _ in op.written)
