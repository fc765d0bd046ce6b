"""Finds spikes of the loss and of the gradient against the run's own history.

The defaults are meant to stay silent on healthy trainings, whose signals have heavy tails. A value
is a spike only if it lies far above the median in robust standard deviations *and* far above
everything that the run has seen lately. There are two ways: one value that is extreme, or several
steps in a row (*strikes*) that are high. A history that is too short (warm-up) judges nothing, and
a change of the learning rate by more than a factor of two starts it anew.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from sonde.monitor.history import SignalSeries, robust_score
from sonde.monitor.triggers import Quantity, Trigger

WARM_UP_STEPS: Final = 100
HISTORY_STEPS: Final = 1000
STRIKES: Final = 3
_EXTREME_SCORE: Final = 20.0
_EXTREME_LOG_SCORE: Final = 8.0
_EXTREME_FACTOR: Final = 10.0
_HIGH_SCORE: Final = 12.0
_HIGH_LOG_SCORE: Final = 6.0
_HIGH_FACTOR: Final = 4.0
_OTHER_RATE: Final = 2.0


@dataclass(slots=True)
class SpikeDetector:
    """Judges one signal (``quantity``) of one optimizer's steps.

    A factor compares distances: of the value from the run's lowest, and of the run's highest from
    its lowest. So the loss may have any sign and any offset. For norms, which are positive and vary
    by orders of magnitude, ``is_norm`` takes their logarithms for the score, and factors of the
    norms themselves.
    """

    quantity: Quantity
    is_norm: bool
    _series: SignalSeries = field(default_factory=lambda: SignalSeries(HISTORY_STEPS))
    _strikes: list[float] = field(default_factory=list)
    _highest: float = -math.inf
    _lowest: float = math.inf
    _since: int = 0

    def judge(self, step: int, value: float) -> Trigger | None:
        """Judge a finite value and add it to the history, unless it is a spike."""
        if self._series.count < WARM_UP_STEPS:
            self._add(value)
            return None
        extent = self._extent(value)
        if extent < _HIGH_FACTOR:
            # A strike that was not confirmed belongs to the history of a healthy run.
            for each in self._strikes:
                self._add(each)
            self._strikes.clear()
            self._add(value)
            return None
        score, median = self._score(value)
        self._strikes.append(value)
        extreme = _EXTREME_LOG_SCORE if self.is_norm else _EXTREME_SCORE
        high = _HIGH_LOG_SCORE if self.is_norm else _HIGH_SCORE
        is_extreme = extent >= _EXTREME_FACTOR and score >= extreme
        is_third = len(self._strikes) >= STRIKES and score >= high
        if not is_extreme and not is_third:
            if len(self._strikes) > STRIKES:
                self._add(self._strikes.pop(0))
            return None
        self._strikes.clear()
        factor = _EXTREME_FACTOR if is_extreme else _HIGH_FACTOR
        span = self._highest if self.is_norm else self._highest - self._lowest
        start = 0.0 if self.is_norm else self._lowest
        return Trigger(
            "spike",
            step,
            self.quantity,
            value=value,
            threshold=start + factor * span,
            median=median,
            highest=self._highest,
            score=score,
            history_steps=self._series.kept,
        )

    def restart(self) -> None:
        """Forget the history: the program has changed how it trains."""
        self._series.clear()
        self._strikes.clear()
        self._highest, self._lowest, self._since = -math.inf, math.inf, 0

    def _extent(self, value: float) -> float:
        """How far the value lies above the run's lowest, in units of the run's own range."""
        if self.is_norm:
            return value / self._highest if self._highest > 0 else 0.0
        span = self._highest - self._lowest
        return (value - self._lowest) / span if span > 0 else 0.0

    def _score(self, value: float) -> tuple[float, float]:
        history = self._series.last(HISTORY_STEPS)
        if not self.is_norm:
            return robust_score(value, history)
        positive = history[history > 0]
        if value <= 0 or not len(positive):
            return 0.0, 0.0
        score, median = robust_score(math.log(value), np.log(positive))
        return score, math.exp(median)

    def _add(self, value: float) -> None:
        """Add a value; highest and lowest are of the last 1,000 to 2,000 steps."""
        self._series.add(value)
        self._highest = max(self._highest, value)
        self._lowest = min(self._lowest, value)
        self._since += 1
        if self._since >= HISTORY_STEPS:
            history = self._series.last(HISTORY_STEPS)
            self._highest, self._lowest = float(history.max()), float(history.min())
            self._since = 0


def is_other_rate(before: float, now: float) -> bool:
    """Whether the learning rate has changed so much that a history before says nothing."""
    if not (math.isfinite(before) and math.isfinite(now)) or before == now:
        return False
    low, high = sorted((abs(before), abs(now)))
    return low == 0 or high / low > _OTHER_RATE
