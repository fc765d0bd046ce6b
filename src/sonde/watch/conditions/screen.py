"""Tests of statistics that native code runs (``native/match/screen.h``).

They clear most tensors; tensors that fail the tests are evaluated in Python.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Final

from sonde.core.statistics import ABS_MEAN, AVG, MAX, MIN, ROW_COLUMNS


class TestKind(IntEnum):
    """The kinds of tests; the comments name the numbers that follow the kind."""

    PLAIN = 0  # not empty, and finite
    FINITE = 1
    ABOVE = 2  # column, threshold
    BELOW = 3
    AT_LEAST = 4
    SHARE_BELOW = 5  # low, high, per cent
    SHARE_ABOVE = 6
    ALL_ZERO = 7


ZERO_PERCENTAGE: Final = ROW_COLUMNS
DEVIATION: Final = ROW_COLUMNS + 1
RANGE: Final = ROW_COLUMNS + 2
COLUMNS: Final = {
    "abs_mean": ABS_MEAN,
    "max": MAX,
    "min": MIN,
    "mean": AVG,
    "sd": DEVIATION,
    "zero_percentage": ZERO_PERCENTAGE,
    "max_min": RANGE,
}
"""Columns of a row; numbers beyond its end are computed from it."""
RELATIONS: Final = {"gt": TestKind.ABOVE, "lt": TestKind.BELOW, "ge": TestKind.AT_LEAST}

TEST_NUMBERS: Final = 4
Test = tuple[float, float, float, float]
"""A kind and three numbers; unused ones are zero."""
Tests = tuple[Test, ...]
"""The tests of one condition, all of which must clear a tensor."""

_OF_EXTREMES: Final = (TestKind.PLAIN, TestKind.FINITE, TestKind.ALL_ZERO)
_SHARES: Final = (TestKind.SHARE_BELOW, TestKind.SHARE_ABOVE)

PLAIN: Final[Test] = (TestKind.PLAIN, 0.0, 0.0, 0.0)
FINITE: Final[Tests] = ((TestKind.FINITE, 0.0, 0.0, 0.0),)


def compared(name: str, preset: float) -> Test:
    """The test of a parameter such as ``abs_mean_gt``."""
    if name == "zero_percentage_ge" and preset == 100:
        return (TestKind.ALL_ZERO, 0.0, 0.0, 0.0)  # The extremes are enough, and cost less.
    statistic, _, relation = name.rpartition("_")
    return (RELATIONS[relation], COLUMNS[statistic], preset, 0.0)


def needs_outline_only(watches: Iterable[Sequence[Tests]]) -> bool:
    """Whether extremes and counts of NaN and Inf are enough (``kernels.outline_into``)."""
    return all(
        test[0] in _OF_EXTREMES
        or (test[0] in RELATIONS.values() and test[1] in (MAX, MIN, RANGE))
        # If a bound is zero, the counts of signs clear more tensors.
        or (test[0] in _SHARES and 0 not in test[1:3])
        for conditions in watches
        for tests in conditions
        for test in tests
    )


def screen_bytes(watches: Iterable[Sequence[Tests]]) -> bytes:
    """The tests in the format of native code: for each watch its conditions, one of which must
    clear a tensor; each list after its length, all as float64."""
    found = list(watches)
    numbers: list[float] = [len(found)]
    for conditions in found:
        numbers.append(len(conditions))
        for tests in conditions:
            numbers.append(len(tests))
            numbers += (number for test in tests for number in test)
    return struct.pack(f"{len(numbers)}d", *numbers)
