"""The events of torch's profiler as plain values, and how they are nested."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TraceEvent:
    """One event of the profiler. Times are nanoseconds of the profiler's clock.

    ``shapes`` are those of the tensor inputs, empty if they were not recorded. ``is_range``: a
    range marked with ``record_function``, not an op.
    """

    name: str
    start: int
    end: int
    thread: int
    is_range: bool = False
    is_async: bool = False
    shapes: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class MemoryEvent:
    """An allocation of ``nbytes`` (positive), or a release (negative)."""

    time: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class Nested:
    """Events of one thread by start time, each with the index of the enclosing one (-1: none).

    ``own`` is the time of an event that is not covered by events inside it.
    """

    events: tuple[TraceEvent, ...]
    parents: tuple[int, ...]
    own: tuple[int, ...]

    def roots(self) -> list[TraceEvent]:
        """The events that no other encloses."""
        return [e for e, parent in zip(self.events, self.parents, strict=True) if parent < 0]


def nest(events: Sequence[TraceEvent]) -> Nested:
    """Sort events of one thread and find the enclosing event of each.

    If an event seems to end after the enclosing one, which clocks can cause, its own time is cut
    at the end of the enclosing one; own times are never negative.
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
