"""Memory of one step: over time, its peak, and whose it was at the peak."""

from __future__ import annotations

import bisect
from collections.abc import Sequence

from sonde.core.graph import GRADIENTS, OpNode
from sonde.profile.analyse.timings import TimedStep
from sonde.profile.document import MemoryItem

_MOST_POINTS = 600


def plain_scope(scope: str) -> str:
    """The module's own scope, whichever phase the op ran in."""
    return scope.removeprefix(GRADIENTS)


def measure_memory(step: TimedStep, resident: int) -> MemoryItem:
    """What the step allocated, from the profile.

    The profile tells sizes, not which block a release frees: a release is booked on the latest
    living allocation of that size. Blocks that are older than the step count below zero, so that
    the line may begin falling.
    """
    names = _NamesByTime(step)
    level = peak = 0
    peak_at = step.trace.begin
    living: dict[int, list[str]] = {}
    by_module: dict[str, int] = {}
    at_peak: dict[str, int] = {}
    points: list[tuple[int, int]] = [(step.trace.begin, 0)]
    for event in sorted(step.trace.memory, key=lambda each: each.time):
        level += event.nbytes
        if event.nbytes >= 0:
            owner = names.module_at(event.time)
            living.setdefault(event.nbytes, []).append(owner)
            by_module[owner] = by_module.get(owner, 0) + event.nbytes
        elif living.get(-event.nbytes):
            by_module[living[-event.nbytes].pop()] += event.nbytes
        points.append((event.time, level))
        if level > peak:
            peak, peak_at, at_peak = level, event.time, dict(by_module)
    return MemoryItem(
        step=step.trace.number,
        peak=peak,
        peak_at=(peak_at - step.trace.begin) / 1e9,
        peak_part=step.split.part_at(peak_at),
        resident=resident,
        timeline=tuple(((time - step.trace.begin) / 1e9, size) for time, size in thinned(points)),
        modules={
            name: size
            for name, size in sorted(at_peak.items(), key=lambda item: -item[1])
            if size > 0
        },
    )


def thinned(points: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """At most some hundred points that keep the highest and the lowest of each stretch."""
    if len(points) <= _MOST_POINTS:
        return list(points)
    width = -(-len(points) * 2 // _MOST_POINTS)
    kept: list[tuple[int, int]] = []
    for at in range(0, len(points), width):
        stretch = points[at : at + width]
        low = min(stretch, key=lambda point: point[1])
        high = max(stretch, key=lambda point: point[1])
        kept.extend(sorted({low, high}))
    return kept


class _NamesByTime:
    """Whose op runs at a moment; between ops it is the one that begins next."""

    def __init__(self, step: TimedStep) -> None:
        events = step.trace.main.events
        self._ends: list[int] = []
        self._nodes: list[OpNode] = []
        for index in sorted(step.names):
            self._ends.append(events[index].end)
            self._nodes.append(step.names[index])

    def module_at(self, moment: int) -> str:
        at = bisect.bisect_right(self._ends, moment)
        return plain_scope(self._nodes[at].scope) if at < len(self._nodes) else "Default"
