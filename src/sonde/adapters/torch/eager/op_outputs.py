"""What an op writes and returns: functions of `op_learning` that need no tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from sonde.adapters.torch import private
from sonde.adapters.torch.eager.op_schema import OpInfo, named_arguments, op_info, tensors_in
from sonde.adapters.torch.eager.op_tree import ALIAS, WRITTEN, OpRecord, TensorRef
from sonde.core.interruption import pass_on
from sonde.watch.op_types import ALLOCATING, UNFILLED, VIEWS, WORKSPACES, slots_text


def argument_slots(
    names: frozenset[str], info: OpInfo, args: Sequence[Any], kwargs: dict[str, Any] | None
) -> tuple[int, ...]:
    """The slots, among the flattened tensor inputs, of the arguments ``names``."""
    if not names:
        return ()
    slots: list[int] = []
    slot = 0
    for name, value in named_arguments(info, args, kwargs):
        count = sum(1 for _ in tensors_in(value))
        if name in names:
            slots.extend(range(slot, slot + count))
        slot += count
    return tuple(slots)


def final_attributes(
    record: OpRecord, more: tuple[tuple[str, str], ...] = ()
) -> tuple[tuple[str, str], ...]:
    """The attributes of an op whose outputs are known, with ``more`` about them. If some are memory
    that no op has filled, and the type of the op does not say so, an attribute tells it to readers
    of the graph."""
    op_type = record.info.type
    known = tuple(each for each in (*record.node.attributes, *more) if each[0] != UNFILLED)
    slots = [slot for slot, (_, ref) in enumerate(record.outs) if ref.is_unfilled]
    if not slots or op_type in ALLOCATING or op_type in VIEWS or op_type in WORKSPACES:
        return known
    return (*known, (UNFILLED, slots_text(slots)))


def is_filled(source: TensorRef | None, memory: TensorRef) -> bool:
    """Whether ops have filled an input: ``source`` if that is known, else all of ``memory``."""
    if source is not None:
        return not source.is_unfilled
    return not memory.is_unfilled and not memory.has_gaps


def _is_whole(tensor: torch.Tensor) -> bool:
    """Whether ``tensor`` covers all of its memory, judging by sizes."""
    try:
        return tensor.numel() * tensor.element_size() >= tensor.untyped_storage().nbytes()
    except (NotImplementedError, RuntimeError) as error:
        pass_on(error)
        return True


def unreturned_writes(
    record: OpRecord, results: list[torch.Tensor], tensors: list[torch.Tensor]
) -> tuple[int, ...]:
    """The slots of inputs that the op wrote to and did not return."""
    returned = {private.tensor_id(tensor) for tensor in results}
    return tuple(slot for slot in record.writes if private.tensor_id(tensors[slot]) not in returned)


def output_ref(
    record: OpRecord,
    slot: int,
    kind: int,
    tensor: torch.Tensor,
    geometry: object,
    keys: list[int],
    key: int,
) -> TensorRef:
    """Make the reference of one output, and note in it whether ops have filled its memory."""
    ref = TensorRef(record, slot, geometry)
    inputs = [number for number, other in enumerate(keys) if other == key]
    # An op such as _foreach_copy_ may fill several tensors over one storage.
    filled = {number: record.filled[number] or number in record.overwrites for number in inputs}
    ref.is_unfilled = (
        not record.info.fills
        or slot in record.info.workspaces
        or (kind == ALIAS and not all(filled[number] for number in inputs))
    )
    if kind == WRITTEN and not _is_whole(tensor):
        befores = [record.in_refs[number] for number in inputs]
        ref.has_gaps = any(before.is_unfilled or before.has_gaps for before in befores)
    return ref


def sibling_with(record: OpRecord, count: int) -> OpRecord | None:
    """The record that differs from ``record`` only in that its op returned ``count`` tensors."""
    assert record.parent is not None
    for sibling in record.parent.next:
        returned_count = len(sibling.outs) - len(sibling.returned)
        if returned_count == count and _is_alike(sibling, record):
            return sibling
    return None


def _is_alike(one: OpRecord, other: OpRecord) -> bool:
    """Whether two records differ in their outputs at most."""
    return (
        one.func is other.func
        and one.scope is other.scope
        and (one.depth, one.code, one.last) == (other.depth, other.code, other.last)
        and one.in_refs == other.in_refs
        and one.sources == other.sources
    )


def twin_of(record: OpRecord) -> OpRecord:
    """A new record like ``record``, whose outputs are to be learned."""
    twin = OpRecord(record.parent, record.func, record.info, record.scope)
    twin.depth, twin.code, twin.last = record.depth, record.code, record.last
    twin.in_refs, twin.sources, twin.leaves = record.in_refs, record.sources, record.leaves
    twin.writes, twin.node, twin.filled = record.writes, record.node, record.filled
    twin.overwrites = record.overwrites
    return twin


_FOREACH = "aten::_foreach_"

Uncounted = list[tuple[torch.Tensor, int]]
"""Tensors that an op is about to write to, each with torch's count of writes before it."""


def uncounted_writes(func: Any, args: Sequence[Any], kwargs: dict[str, Any] | None) -> Uncounted:
    """What ``func`` writes to without torch counting it under a dispatch mode.

    Torch counts the writes of most ops after the dispatch. Those of a ``_foreach_`` op are counted
    by the ops inside it, which do not count under a mode, or by its kernel, which does.
    """
    if not getattr(func, "_name", "").startswith(_FOREACH):
        return []
    info = op_info(func)
    if not info.writes:
        return []
    return [
        (tensor, private.version_of(tensor))
        for name, value in named_arguments(info, args, kwargs)
        if name in info.writes
        for tensor in tensors_in(value)
    ]


def count_writes(before: Uncounted) -> None:
    """Count the writes of an op that has run, unless its kernel did; ``before`` is from
    `uncounted_writes`."""
    uncounted = [tensor for tensor, version in before if 0 <= version == private.version_of(tensor)]
    if uncounted:
        private.count_write(uncounted)
