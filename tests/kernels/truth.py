"""Statistics worked out element by element in arithmetic without rounding (mpmath)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import mpmath

from sonde.core.statistics import Statistics

# Bits that hold the sum of squares of any float64 exactly.
_PRECISION = 4400

COUNTS = (
    "count",
    "nan_count",
    "positive_inf_count",
    "negative_inf_count",
    "zero_count",
    "negative_count",
    "positive_count",
)
EXTREMES = ("max", "min", "finite_max", "finite_min")
SUMS = ("avg", "l2norm", "std", "abs_mean")


def true_statistics(values: Sequence[float | int], *, rounded: bool = False) -> Statistics:
    """``rounded``: sums are of the elements rounded to float64, as for 64-bit integers."""
    summed = [float(value) for value in values] if rounded else values
    finite = [value for value in values if math.isfinite(value)]
    nans = sum(math.isnan(value) for value in values)
    positive = sum(value == math.inf for value in values)
    negative = sum(value == -math.inf for value in values)
    numbers = [value for value in values if not math.isnan(value)]
    return Statistics(
        len(values),
        nans,
        positive,
        negative,
        sum(value == 0 for value in values),
        sum(value < 0 for value in values),
        sum(value > 0 for value in values),
        math.nan if nans or not values else max(numbers),
        math.nan if nans or not values else min(numbers),
        max(finite, default=math.nan),
        min(finite, default=math.nan),
        *_sums(summed, nans, positive, negative),
    )


def _sums(
    values: Sequence[float | int], nans: int, positive: int, negative: int
) -> tuple[float, float, float, float]:
    if not values:
        return math.nan, 0.0, math.nan, math.nan
    if nans or positive or negative:
        avg = math.nan if nans or (positive and negative) else math.copysign(math.inf, positive - 1)
        other = math.nan if nans else math.inf
        return avg, other, math.nan, other
    with mpmath.workprec(_PRECISION):
        numbers = [mpmath.mpf(value) for value in values]
        mean = mpmath.fsum(numbers) / len(numbers)
        return (
            float(mean),
            float(mpmath.sqrt(mpmath.fsum(number**2 for number in numbers))),
            float(mpmath.sqrt(mpmath.fsum((x - mean) ** 2 for x in numbers) / len(numbers))),
            float(mpmath.fsum(abs(number) for number in numbers) / len(numbers)),
        )


def assert_same(found: Statistics, expected: Statistics, *, sums: float = 1e-12) -> None:
    """Counts and extremes exactly; sums to ``sums`` of the size of the elements."""
    for name in (*COUNTS, *EXTREMES):
        mine, theirs = getattr(found, name), getattr(expected, name)
        assert mine == theirs or (math.isnan(mine) and math.isnan(theirs)), (name, mine, theirs)
        assert type(mine) is type(theirs), (name, mine, theirs)
    for name in SUMS:
        mine, theirs = getattr(found, name), getattr(expected, name)
        if not math.isfinite(theirs):
            assert mine == theirs or (math.isnan(mine) and math.isnan(theirs)), (name, mine, theirs)
            continue
        # The average of numbers that cancel is as exact as their magnitudes allow.
        size = expected.abs_mean if name == "avg" else theirs
        # A spread far below the values is as exact as the differences between them.
        assert abs(mine - theirs) <= sums * abs(size) + 5e-324, (name, mine, theirs)
