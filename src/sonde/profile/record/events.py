"""What torch's profiler saw, as plain values, and how events lie inside each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TraceEvent:
    """One event of the profiler. Times are nanoseconds of the profiler's clock.

    ``shapes`` and ``dtypes`` are of the tensor inputs and empty where they were not recorded.
    ``is_range`` is a range that was marked by hand (``record_function``), not an op.
    """

    name: str
    start: int
    end: int
    thread: int
    is_range: bool = False
    is_async: bool = False
    shapes: tuple[Shape, ...] = ()
    dtypes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MemoryEvent:
    """An allocation (positive) or a release (negative) of so many bytes."""

    time: int
    nbytes: int
    thread: int


@dataclass(frozen=True, slots=True)
class Nested:
    """Events of one thread in the order they began, each with the one it lies in (-1: none).

    ``own`` is the time of an event that no event inside it covers.
    """

    events: tuple[TraceEvent, ...]
    parents: tuple[int, ...]
    own: tuple[int, ...]

    def roots(self) -> list[int]:
        return [index for index, parent in enumerate(self.parents) if parent < 0]


def nest(events: Sequence[TraceEvent]) -> Nested:
    """Order events of one thread and find out which lies in which.

    An event that sticks out of the one before it, as clocks may make it seem, is taken to end with
    it for the time it owns; times are never negative.
    """
    ordered = sorted(events, key=lambda event: (event.start, -event.end))
    parents: list[int] = []
    own: list[int] = []
    ends: list[int] = []
    open_: list[int] = []
    for index, event in enumerate(ordered):
        while open_ and ends[open_[-1]] <= event.start:
            open_.pop()
        end = event.end
        if open_:
            parent = open_[-1]
            end = min(end, ends[parent])
            own[parent] -= end - event.start
        parents.append(open_[-1] if open_ else -1)
        own.append(max(0, end - event.start))
        ends.append(end)
        open_.append(index)
    return Nested(tuple(ordered), tuple(parents), tuple(own))
