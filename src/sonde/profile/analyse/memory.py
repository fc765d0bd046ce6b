"""Memory of one step: over time, its peak, and the modules that hold it at the peak."""

from __future__ import annotations

import bisect
from collections.abc import Sequence

from sonde.core.graph import GRADIENTS
from sonde.profile.analyse.timings import TimedStep
from sonde.profile.document import MemoryItem

_MOST_POINTS = 600


def plain_scope(scope: str) -> str:
    """The scope of the module, for backward ops as for forward ops."""
    return scope.removeprefix(GRADIENTS)


def measure_memory(step: TimedStep, resident: int) -> MemoryItem:
    """What the step allocated, according to the profile.

    The profile contains sizes, not which block is released, so a release is attributed to the
    latest live allocation of that size. Releases of blocks that are older than the step make the
    level negative. An allocation belongs to the op that runs, or else to the next one.
    """
    begin = step.trace.begin
    known = sorted(step.names)
    ends = [step.trace.main.events[index].end for index in known]
    modules = [*(plain_scope(step.names[index].scope) for index in known), "Default"]
    level = peak = 0
    peak_at = begin
    live: dict[int, list[str]] = {}
    by_module: dict[str, int] = {}
    at_peak: dict[str, int] = {}
    points: list[tuple[int, int]] = [(begin, 0)]
    for event in sorted(step.trace.memory, key=lambda each: each.time):
        level += event.nbytes
        if event.nbytes >= 0:
            owner = modules[bisect.bisect_right(ends, event.time)]
            live.setdefault(event.nbytes, []).append(owner)
            by_module[owner] = by_module.get(owner, 0) + event.nbytes
        elif live.get(-event.nbytes):
            by_module[live[-event.nbytes].pop()] += event.nbytes
        points.append((event.time, level))
        if level > peak:
            peak, peak_at, at_peak = level, event.time, dict(by_module)
    largest = sorted(at_peak.items(), key=lambda item: -item[1])
    return MemoryItem(
        step=step.trace.number,
        peak=peak,
        peak_at=(peak_at - begin) / 1e9,
        peak_part=step.split.part_at(peak_at),
        resident=resident,
        timeline=tuple(((time - begin) / 1e9, size) for time, size in thinned(points)),
        modules={name: size for name, size in largest if size > 0},
    )


def thinned(points: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """At most ``_MOST_POINTS`` points: the highest and the lowest of each stretch."""
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
