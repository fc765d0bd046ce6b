"""Compares two profiles: what got faster or slower, and whether that is more than noise."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from sonde.profile.analyse.split import PARTS
from sonde.profile.document import OpItem, Profile

_LEAST_CHANGE = 0.03
_SURE = 2.0


@dataclass(frozen=True, slots=True)
class Change:
    """One number before and after. ``is_sure`` is None if its noise is unknown."""

    name: str
    before: float
    after: float
    is_sure: bool | None = None

    @property
    def ratio(self) -> float | None:
        return self.after / self.before if self.before > 0 else None


@dataclass(frozen=True, slots=True)
class Difference:
    """What changed from one profile to another; ops and modules with the largest change first."""

    step: Change
    parts: tuple[Change, ...]
    memory: Change | None
    ops: tuple[Change, ...]
    modules: tuple[Change, ...]
    gone: tuple[str, ...]
    new: tuple[str, ...]


def compare_profiles(before: Profile, after: Profile) -> Difference:
    """Everything that changed between two profiles, presumably of the same program."""
    a, b = before.summary, after.summary
    memory = None
    if a.peak_memory is not None and b.peak_memory is not None:
        memory = Change("peak memory", a.peak_memory, b.peak_memory)
    old = {found.rule for found in before.findings}
    new = {found.rule for found in after.findings}
    is_step_sure = is_surely_different(_step_times(before), _step_times(after))
    return Difference(
        step=Change("step", a.step_time, b.step_time, is_step_sure),
        parts=tuple(
            Change(
                part,
                a.parts[part],
                b.parts[part],
                is_surely_different(_part_times(before, part), _part_times(after, part)),
            )
            for part in PARTS
        ),
        memory=memory,
        ops=_changes(before.ops, after.ops, lambda op: f"{op.op} ({op.phase})"),
        modules=_changes(before.ops, after.ops, lambda op: op.module or "(none)"),
        gone=tuple(sorted(old - new)),
        new=tuple(sorted(new - old)),
    )


def is_surely_different(before: Sequence[float], after: Sequence[float]) -> bool | None:
    """Whether medians differ by more than 3 % and by more than twice their joint uncertainty.

    The uncertainty of a median is estimated from the median absolute deviation, which a single slow
    step does not affect. None with fewer than four numbers on a side.
    """
    if min(len(before), len(after)) < 4:
        return None
    a, b = statistics.median(before), statistics.median(after)
    if a <= 0:
        return b > 0
    if abs(b - a) < _LEAST_CHANGE * a:
        return False
    return abs(b - a) > _SURE * math.hypot(_error(before), _error(after))


def _error(values: Sequence[float]) -> float:
    """The standard error of the median of normally distributed values."""
    middle = statistics.median(values)
    deviation = statistics.median(abs(value - middle) for value in values)
    return float(1.4826 * 1.2533 * deviation / len(values) ** 0.5)


def _step_times(profile: Profile) -> list[float]:
    bare = [step.seconds for step in profile.steps if step.kind == "bare" and step.number > 1]
    if len(bare) >= 3:
        return bare
    return [step.seconds for step in profile.steps if step.kind == "timed"]


def _part_times(profile: Profile, part: str) -> list[float]:
    return [step.parts[part] for step in profile.steps if step.parts is not None]


def _changes(
    before: Iterable[OpItem], after: Iterable[OpItem], key: Callable[[OpItem], str]
) -> tuple[Change, ...]:
    sums: dict[str, list[float]] = {}
    for side, ops in enumerate((before, after)):
        for op in ops:
            sums.setdefault(key(op), [0.0, 0.0])[side] += op.seconds + op.python_seconds
    changes = [Change(name, old, new) for name, (old, new) in sums.items()]
    return tuple(sorted(changes, key=lambda change: -abs(change.after - change.before)))
