"""Pairs the gradients that the optimizers of two runs read: after they were exchanged between
ranks, added up over micro-batches, or clipped."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import replace

from sonde.compare.runs.merging.both_sides import MergedSides
from sonde.compare.runs.merging.planning import is_gradient_leaf
from sonde.compare.runs.pairing.alignment import Alignment
from sonde.compare.runs.run_side import RunSide, SideOp, SideValue
from sonde.compare.runs.tensor_pairs import PendingPair


def add_gradient_pairs(pairs: list[PendingPair], found: Alignment, settled: Container[str]) -> None:
    """Add a pair for each gradient, before the op that uses it: of the optimizer, or one of
    ``settled``, such as clipping."""
    added = list(_gradient_pairs(pairs, found, settled))
    pairs += added
    pairs.sort(key=lambda pair: pair.order)


def _gradient_pairs(
    pairs: Sequence[PendingPair], found: Alignment, settled: Container[str]
) -> Iterator[PendingPair]:
    seen: set[tuple[SideValue, SideValue]] = set()
    for update in pairs:
        a, b = update.a, update.b
        is_user = a.phase == "optimizer" or a.name in settled
        if not is_user or update.state is not None or a.type != b.type:
            continue
        slots_b = dict(b.inputs_by_slot)
        for slot, value in a.inputs_by_slot:
            twin = slots_b.get(slot)
            if twin is None or (value, twin) in seen:
                continue
            if not _is_gradient(found.a, value) or not _is_gradient(found.b, twin):
                continue
            seen.add((value, twin))
            pair = _pair(found, update, slot, value, twin)
            if pair.tasks:
                update.reads = [*update.reads, (value, twin)]
                yield pair


def _pair(
    found: Alignment, update: PendingPair, slot: int, value: SideValue, twin: SideValue
) -> PendingPair:
    maker = found.a.producer(value) or update.a
    other = found.b.producer(twin) or update.b
    source = maker.source or update.a.source
    maker = replace(maker, phase="backward", node_kind="op", source=source)
    pair = PendingPair(update.a.index - 0.5, maker, other, "gradient")
    root, other_root = found.a.root(value), found.b.root(twin)
    if found.values.get(root) == other_root:
        pair.reads = [(root, other_root)]
    pair.has_unknown_inputs = not pair.reads
    # The exchange and the accumulation add few terms to each other.
    pair.assessed_as = replace(maker, type="sum", kind="sum", phase="backward")
    pair.add(
        found.a.records.get((update.a.name, "input", slot)),
        found.b.records.get((update.b.name, "input", slot)),
        (value, twin),
    )
    return pair


def _is_gradient(side: RunSide, value: SideValue) -> bool:
    """Whether a value that the optimizer or clipping reads is the gradient of a parameter."""
    op = side.producer(value)
    if op is None:
        return False
    return is_gradient_leaf(op) if op.is_leaf else op.phase != "optimizer" and op.size > 1


def missing_before(merged: MergedSides, op: SideOp, ranks: Sequence[int]) -> SideOp | None:
    """The first op that the result of ``op`` depends on, in the optimizer's step or after the
    backward pass, and that one of ``ranks`` did not run."""
    side = merged.a
    stack, seen = [op.name], {op.name}
    found: list[SideOp] = []
    by_name = {each.name: each for each in side.ops}
    while stack:
        current = by_name.get(stack.pop())
        if current is None or current.is_leaf:
            continue
        absent = merged.from_a.missing.get(current.name, ())
        if absent and set(ranks) & set(absent):
            found.append(current)
        for value in current.inputs:
            if value.op not in seen:
                seen.add(value.op)
                stack.append(value.op)
    return min(found, key=lambda each: each.index, default=None)
