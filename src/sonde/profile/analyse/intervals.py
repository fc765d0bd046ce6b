"""Sets of time as sorted, disjoint, half-open intervals of integer nanoseconds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Interval = tuple[int, int]
Intervals = list[Interval]


def union(spans: Iterable[Interval]) -> Intervals:
    """Every moment covered by at least one span; empty and backward spans cover nothing."""
    merged: Intervals = []
    for begin, end in sorted(span for span in spans if span[0] < span[1]):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged


def subtract(from_: Sequence[Interval], remove: Sequence[Interval]) -> Intervals:
    """The moments of ``from_`` that are not in ``remove``; both as `union` returns them."""
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
    """The moments in both; both as `union` returns them."""
    shared: Intervals = []
    i = j = 0
    while i < len(a) and j < len(b):
        begin, end = max(a[i][0], b[j][0]), min(a[i][1], b[j][1])
        if begin < end:
            shared.append((begin, end))
        if a[i][1] <= b[j][1]:
            i += 1
        else:
            j += 1
    return shared


def length(spans: Iterable[Interval]) -> int:
    """How long disjoint spans are together, in nanoseconds."""
    return sum(end - begin for begin, end in spans)
