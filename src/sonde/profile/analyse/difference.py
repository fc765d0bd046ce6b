"""Two profiles compared: what got faster, what slower, and whether that is more than noise."""

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
    """One number before and after. ``is_sure`` is None where nothing is known of its noise."""

    name: str
    before: float
    after: float
    is_sure: bool | None = None

    @property
    def ratio(self) -> float | None:
        return self.after / self.before if self.before > 0 else None


@dataclass(frozen=True, slots=True)
class Difference:
    """What changed from one profile to another; lists are sorted by the size of the change."""

    step: Change
    parts: tuple[Change, ...]
    memory: Change | None
    ops: tuple[Change, ...]
    modules: tuple[Change, ...]
    gone: tuple[str, ...]
    new: tuple[str, ...]


def compare_profiles(before: Profile, after: Profile) -> Difference:
    """Everything that changed between two profiles of, presumably, the same program."""
    memory = None
    if before.summary.peak_memory is not None and after.summary.peak_memory is not None:
        memory = Change("peak memory", before.summary.peak_memory, after.summary.peak_memory)
    old = {found.rule for found in before.findings}
    now = {found.rule for found in after.findings}
    return Difference(
        step=Change(
            "step",
            before.summary.step_time,
            after.summary.step_time,
            is_surely_different(_bare(before), _bare(after)),
        ),
        parts=tuple(
            Change(
                part,
                before.summary.parts[part],
                after.summary.parts[part],
                is_surely_different(_part(before, part), _part(after, part)),
            )
            for part in PARTS
        ),
        memory=memory,
        ops=_changes(before.ops, after.ops, lambda op: f"{op.op} ({op.phase})"),
        modules=_changes(before.ops, after.ops, lambda op: op.module or "(none)"),
        gone=tuple(sorted(old - now)),
        new=tuple(sorted(now - old)),
    )


def is_surely_different(before: Sequence[float], after: Sequence[float]) -> bool | None:
    """Whether medians differ by more than 3 % and by more than twice their joint uncertainty.

    The uncertainty of a median is taken from the median absolute deviation, which single slow
    steps do not move. None with fewer than four numbers on a side.
    """
    if min(len(before), len(after)) < 4:
        return None
    a, b = statistics.median(before), statistics.median(after)
    if a <= 0:
        return b > 0
    if abs(b - a) < _LEAST_CHANGE * a:
        return False
    uncertainty = math.hypot(_error(before), _error(after))
    return abs(b - a) > _SURE * uncertainty


def _error(values: Sequence[float]) -> float:
    """The standard error of the median of normal values, from their absolute deviations."""
    middle = statistics.median(values)
    deviation = statistics.median(abs(value - middle) for value in values)
    return float(1.4826 * 1.2533 * deviation / len(values) ** 0.5)


def _bare(profile: Profile) -> list[float]:
    bare = [step.seconds for step in profile.steps if step.kind == "bare" and step.number > 1]
    if len(bare) >= 3:
        return bare
    return [step.seconds for step in profile.steps if step.kind == "timed"]


def _part(profile: Profile, part: str) -> list[float]:
    return [step.parts[part] for step in profile.steps if step.parts is not None]


def _changes(
    before: Iterable[OpItem], after: Iterable[OpItem], key: Callable[[OpItem], str]
) -> tuple[Change, ...]:
    old, now = _summed(before, key), _summed(after, key)
    changes = [Change(name, old.get(name, 0.0), now.get(name, 0.0)) for name in {**old, **now}]
    return tuple(sorted(changes, key=lambda change: -abs(change.after - change.before)))


def _summed(ops: Iterable[OpItem], key: Callable[[OpItem], str]) -> dict[str, float]:
    sums: dict[str, float] = {}
    for op in ops:
        sums[key(op)] = sums.get(key(op), 0.0) + op.seconds + op.python_seconds
    return sums
