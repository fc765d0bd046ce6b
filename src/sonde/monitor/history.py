"""The signals of the last steps in memory, and statistics of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

_MAD_TO_DEVIATION: Final = 1.4826
"""Times the median absolute deviation: the standard deviation of normally distributed values."""


class SignalSeries:
    """The last ``size`` finite values of one signal, oldest first in `last`."""

    __slots__ = ("_at", "_values", "count")

    def __init__(self, size: int) -> None:
        self._values: npt.NDArray[np.float64] = np.empty(size)
        self._at = 0
        self.count = 0

    def add(self, value: float) -> None:
        """Add a value; NaN and infinities are left out."""
        if math.isfinite(value):
            self._values[self._at] = value
            self._at = (self._at + 1) % len(self._values)
            self.count += 1

    def clear(self) -> None:
        self._at = self.count = 0

    @property
    def kept(self) -> int:
        return min(self.count, len(self._values))

    @property
    def newest(self) -> float:
        """The value that was added last; NaN if there is none."""
        return float(self._values[self._at - 1]) if self.count else math.nan

    def last(self, number: int) -> npt.NDArray[np.float64]:
        """The last ``number`` values, or fewer if there are not so many."""
        number = min(number, self.kept)
        start = self._at - number
        if start >= 0:
            return self._values[start : self._at]
        return np.concatenate((self._values[start:], self._values[: self._at]))


def robust_score(value: float, history: npt.NDArray[np.float64]) -> tuple[float, float]:
    """How many robust standard deviations ``value`` lies above the median, and the median.

    Where more than half of the values are equal the deviation is 0, and the score infinite.
    """
    median = float(np.median(history))
    deviation = _MAD_TO_DEVIATION * float(np.median(np.abs(history - median)))
    above = value - median
    if deviation == 0:
        return (math.inf if above > 0 else 0.0), median
    return above / deviation, median


AGGREGATES: Final[Mapping[str, Callable[[npt.NDArray[np.float64]], float]]] = {
    "median": lambda values: float(np.median(values)),
    "mean": lambda values: float(np.mean(values)),
    "std": lambda values: float(np.std(values)),
    "lowest": lambda values: float(np.min(values)),
    "highest": lambda values: float(np.max(values)),
}
"""The functions of the steps before that an expression may use: ``median(grad_norm, 100)``."""
