"""Which of the ops outside of modules a replay needs: those that gradients come from."""

from __future__ import annotations

from sonde.adapters.torch.replay.step_record import (
    BackwardPass,
    Event,
    ModuleCall,
    OutsideOp,
)


def needed_events(events: list[Event]) -> list[Event]:
    """``events`` without the ops that neither a backward pass nor a module call uses, nor change
    gradients: sums for a log, metrics."""
    needed: set[int] = set()
    found: list[Event] = []
    for event in reversed(events):
        if isinstance(event, OutsideOp) and not _is_needed(event, needed):
            continue
        found.append(event)
        if isinstance(event, BackwardPass):
            needed.update(id(each) for each in event.roots)
            needed.update(id(each) for each in event.gradients if each is not None)
            needed.update(id(each) for each in event.inputs or ())
        elif isinstance(event, ModuleCall | OutsideOp):
            needed.update(id(each) for each in event.inputs)
    found.reverse()
    return found


def changes_gradients(op: OutsideOp, gradients: set[int]) -> bool:
    """Whether ``op`` writes to a gradient of a parameter."""
    return any(id(before) in gradients for before, _ in op.written)


def _is_needed(op: OutsideOp, needed: set[int]) -> bool:
    if op.name in ("__set__", "__delete__"):
        return True
    if any(id(each) in needed for each in op.outputs):
        return True
    if op.name in ("register_hook", "retain_grad"):
        return any(id(each) in needed for each in op.inputs)
    if any(id(after) in needed for _, after in op.written):
        return True
    # Gradients of parameters are what a replay is compared by; they have no user in the record.
    return any(before.leaf is not None and not before.requires_grad for before, _ in op.written)
