"""Pairs the gradients that the optimizers of two runs read: after they were exchanged between
ranks, added up over micro-batches, or clipped."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import replace
from typing import Final

from sonde.compare.runs.merging.merge import RankSides
from sonde.compare.runs.pairing.alignment import Alignment
from sonde.compare.runs.run_side import RunSide, SideOp, SideValue
from sonde.compare.runs.tensor_pairs import PendingPair
from sonde.core.operators.kinds import is_plumbing
from sonde.watch.hit_text import COLLECTIVES

_SELECTIONS: Final = frozenset({"slice", "asstrided"})
"""Kinds of ops that select elements: which ones depends on the part that a rank has."""


def leave_out_layout(pairs: Sequence[PendingPair]) -> None:
    """Compare nothing of ops that only follow from the layout: buffers of an exchange, and ops
    that pass values on, whose shapes say how a rank lays out its part. The ops that compute with
    the values are compared."""
    for pair in pairs:
        if not pair.is_leaf and (_is_buffer(pair) or _only_moves(pair)):
            pair.tasks, pair.makes = [], []


def _is_buffer(pair: PendingPair) -> bool:
    """Whether a buffer with several tensors that are exchanged together is paired with another."""
    exchanges = [op.type.startswith(COLLECTIVES) for op in (pair.a, pair.b)]
    return all(exchanges) or (any(exchanges) and pair.a.size != pair.b.size)


def _only_moves(pair: PendingPair) -> bool:
    moves = [is_plumbing(op.type) or op.kind in _SELECTIONS for op in (pair.a, pair.b)]
    # An op without a counterpart is in the place of another, which may be of any kind.
    return pair.state is None and (any(moves) if pair.how == "place" else all(moves))


def add_gradient_pairs(pairs: list[PendingPair], found: Alignment, settled: Container[str]) -> None:
    """Add a pair for each gradient, before the op that uses it: of the optimizer, or one of
    ``settled``, such as clipping."""
    added = list(_gradient_pairs(pairs, found, settled))
    pairs += added
    pairs.sort(key=lambda pair: pair.order)


def _gradient_pairs(
    pairs: Sequence[PendingPair], found: Alignment, settled: Container[str]
) -> Iterator[PendingPair]:
    compared: set[tuple[SideValue, SideValue]] = set()
    for update in pairs:
        a, b = update.a, update.b
        is_user = a.phase == "optimizer" or (a.name in settled and not _only_moves(update))
        if not is_user or update.state is not None or a.type != b.type:
            continue
        slots_b = dict(b.inputs_by_slot)
        for slot, value in a.inputs_by_slot:
            twin = slots_b.get(slot)
            if twin is None or not (_is_gradient(found.a, value) and _is_gradient(found.b, twin)):
                continue
            if (value, twin) not in compared:
                pair = _pair(found, update, slot, value, twin)
                if not pair.tasks:
                    continue
                compared.add((value, twin))
                yield pair
            # Adam reads a gradient twice: both ops inherit its error.
            update.reads = [*update.reads, (value, twin)]
            update.has_unknown_inputs = not _are_known(found, update)


def _are_known(found: Alignment, update: PendingPair) -> bool:
    """Whether all that an op reads is compared."""
    known = {value for value, _ in update.reads}
    return all(value in known or found.a.root(value) in known for value in update.a.inputs)


def _pair(
    found: Alignment, update: PendingPair, slot: int, value: SideValue, twin: SideValue
) -> PendingPair:
    maker = found.a.producer(value) or update.a
    other = found.b.producer(twin) or update.b
    source = maker.source or update.a.source
    maker = replace(maker, phase="backward", node_kind="op", kind="sum", source=source)
    pair = PendingPair(update.a.index - 0.5, maker, other, "gradient")
    root, other_root = found.a.root(value), found.b.root(twin)
    # FSDP2 hands the gradient over as a new tensor: the op of b tells what it was computed from.
    computed = root if found.values.get(root) == other_root else found.values_back.get(other_root)
    if computed is not None:
        pair.reads = [(computed, other_root)]
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
    return op.is_gradient_leaf if op.is_leaf else op.phase != "optimizer" and op.size > 1


def unlike_before(
    side: RunSide, ran: RankSides, op: SideOp, ranks: Sequence[int]
) -> tuple[SideOp, tuple[int, ...]] | None:
    """The first op that the result of ``op`` depends on and in which ``ranks`` are unlike others:
    one of them did not run it, or only they did. With the ranks that did not."""
    stack, seen = [op.name], {op.name}
    found: list[tuple[SideOp, tuple[int, ...]]] = []
    by_name = {each.name: each for each in side.ops}
    while stack:
        current = by_name.get(stack.pop())
        if current is None or current.is_leaf:
            continue
        absent = ran.missing.get(current.name, ())
        is_only_theirs = set(ranks) == set(ran.sides) - set(absent) and not is_plumbing(
            current.type
        )
        if absent and (set(ranks) & set(absent) or is_only_theirs):
            found.append((current, absent))
        for value in current.inputs:
            if value.op not in seen:
                seen.add(value.op)
                stack.append(value.op)
    return min(found, key=lambda each: each[0].index, default=None)
