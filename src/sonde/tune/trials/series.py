"""The course of one trial's target, gathered from wherever it is said."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from sonde.tune.config.search_config import SearchTarget
from sonde.tune.trials.trial_output import From, ReportedValue

PREFERENCE: tuple[From, ...] = ("report", "summary", "log")
"""Which source is believed when several name the target and the configuration leaves it open."""


@dataclass(slots=True)
class Series:
    """What has been observed so far.

    ``broken`` is the first observation of the target or the loss that was NaN or infinite.
    """

    target: SearchTarget
    values: dict[From, list[tuple[int, float]]] = field(default_factory=dict)
    broken: ReportedValue | None = None
    _told: set[int] = field(default_factory=set)

    def note(self, observations: Iterable[ReportedValue]) -> list[tuple[int, float]]:
        """Add observations; what is new for the study: each step that is kept, once, if finite."""
        before = {origin: len(values) for origin, values in self.values.items()}
        for one in observations:
            if one.is_target and self._is_believed(one.origin):
                known = self.values.setdefault(one.origin, [])
                known.append((len(known) + 1 if one.step is None else one.step, one.value))
            if not math.isfinite(one.value) and self.broken is None and self._breaks(one):
                self.broken = one
        origin = self.origin
        if origin is None:
            return []
        new = []
        for step, value in self.values[origin][before.get(origin, 0) :]:
            if math.isfinite(value) and is_kept(step) and step not in self._told:
                self._told.add(step)
                new.append((step, value))
        return new

    def _is_believed(self, origin: From) -> bool:
        return self.target.origin in ("auto", origin)

    def _breaks(self, one: ReportedValue) -> bool:
        return (one.is_target and self._is_believed(one.origin)) or one.name == "loss"

    @property
    def origin(self) -> From | None:
        """The source that is believed, of those that have said something."""
        return next((one for one in PREFERENCE if self.values.get(one)), None)

    @property
    def latest(self) -> tuple[int, float] | None:
        origin = self.origin
        return None if origin is None else self.values[origin][-1]

    def result(self) -> float | None:
        """The trial's value: its last or its best; NaN if that is NaN; None if it has none."""
        origin = self.origin
        if origin is None:
            return None
        values = [value for _, value in self.values[origin]]
        if self.target.keep == "last":
            return values[-1]
        finite = [value for value in values if math.isfinite(value)]
        if not finite:
            return values[-1]
        return min(finite) if self.target.goal == "minimize" else max(finite)


def is_kept(step: int) -> bool:
    """Whether a step's value goes to the study: every one to 100, then about 90 for each tenfold.

    Pruners compare trials at equal steps, so what is left out must depend on the step alone.
    Negative steps, which Optuna does not take, never do.
    """
    if step < 0:
        return False
    return step <= 100 or step % 10 ** (len(str(step - 1)) - 2) == 0
