"""Ops without a counterpart: what stands in their place, and which pair they belong to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sonde.compare.runs.kinds import is_plumbing
from sonde.compare.runs.pairing.alignment import Alignment, loose_ends
from sonde.compare.runs.run_side import RunSide, SideOp, SideValue


def find_places(found: Alignment) -> Iterator[tuple[SideValue, SideValue]]:
    """Values that paired ops read in the same place, of which one has no counterpart."""
    seen: set[tuple[SideValue, SideValue]] = set()
    for op, other, how in list(found.pairs()):
        if op.type != other.type or how == "order" or is_plumbing(op.type):
            continue  # One may do the work of several: what they read need not correspond.
        for value, twin in loose_ends(found, op, other):
            producer, source = found.a.producer(value), found.b.producer(twin)
            if producer is None or source is None or (value, twin) in seen:
                continue
            if producer.is_leaf or source.is_leaf:
                continue
            if found.is_open(producer) or found.is_open_b(source):
                seen.add((value, twin))
                yield value, twin


def collect_members(found: Alignment) -> None:
    """Give each pair the open ops that lead to it alone, and to no other pair."""
    taken_a: set[int] = set()
    taken_b: set[int] = set()
    for op, other, _ in found.pairs():
        if op.is_leaf or is_plumbing(op.type):
            continue
        found.members_a[op.index] = _upstream(found.a, op, found.forward, taken_a)
        found.members_b[op.index] = _upstream(found.b, other, found.backward, taken_b)


def _upstream(
    side: RunSide, op: SideOp, paired: Mapping[int, int], taken: set[int]
) -> tuple[SideOp, ...]:
    found: list[SideOp] = []
    stack = [op]
    while stack:
        current = stack.pop()
        for root in side.roots(current):
            producer = side.producer(root)
            if producer is None or producer.is_leaf or producer.index in paired:
                continue
            if producer.index in taken or producer.phase != op.phase:
                continue
            taken.add(producer.index)
            found.append(producer)
            stack.append(producer)
    return tuple(sorted(found, key=lambda each: each.index))
