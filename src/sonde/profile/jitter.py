"""How even the steps are."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

_WARM_UP = 2
_LEAST_BARE = 3
_FAR = 3.0
_LEAST_RATIO = 1.25


def jitter(seconds: Sequence[float]) -> float:
    """The spread of the middle half over the median; 0 for fewer than four steps."""
    if len(seconds) < 4:
        return 0.0
    lower, middle, upper = statistics.quantiles(seconds, n=4, method="inclusive")
    return (upper - lower) / middle if middle > 0 else 0.0


def outliers(seconds: Sequence[float]) -> list[int]:
    """Positions of steps far above the others: beyond Tukey's outer fence and a quarter longer."""
    if len(seconds) < 4:
        return []
    lower, middle, upper = statistics.quantiles(seconds, n=4, method="inclusive")
    fence = max(upper + _FAR * (upper - lower), _LEAST_RATIO * middle)
    return [index for index, value in enumerate(seconds) if value > fence]


def bare_step_time(seconds: Sequence[float], profiled: range) -> float | None:
    """The median of the steps outside the window, without the first two; None for too few."""
    bare = [
        value
        for number, value in enumerate(seconds)
        if number >= _WARM_UP and number not in profiled
    ]
    return statistics.median(bare) if len(bare) >= _LEAST_BARE else None
