"""Sets of time as sorted, disjoint, half-open intervals of integer nanoseconds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Interval = tuple[int, int]
Intervals = list[Interval]


def union(spans: Iterable[Interval]) -> Intervals:
    """The times covered by at least one span; empty and backward spans cover nothing."""
    merged: Intervals = []
    for begin, end in sorted(span for span in spans if span[0] < span[1]):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged


def subtract(from_: Sequence[Interval], remove: Sequence[Interval]) -> Intervals:
    """The times of ``from_`` that are not in ``remove``; both as `union` returns them."""
    left: Intervals = []
    index = 0
    for begin, end in from_:
        while index < len(remove) and remove[index][1] <= begin:
            index += 1
        at = index
        while at < len(remove) and remove[at][0] < end:
            if begin < remove[at][0]:
                left.append((begin, remove[at][0]))
            begin = max(begin, remove[at][1])
            at += 1
        if begin < end:
            left.append((begin, end))
    return left


def intersect(a: Sequence[Interval], b: Sequence[Interval]) -> Intervals:
    """The times in both; both as `union` returns them."""
    return subtract(a, subtract(a, b))


def length(spans: Iterable[Interval]) -> int:
    """The total length of disjoint spans, in nanoseconds."""
    return sum(end - begin for begin, end in spans)
