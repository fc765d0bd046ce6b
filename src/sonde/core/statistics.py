"""The summary numbers of one tensor: their names, their meaning, their text.

``docs/statistics.md`` states the policy of each number (NaN, Inf, empty, low precision).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from math import hypot, isfinite, isnan, sqrt
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from sonde.core.errors import SondeError

# A raw row is ROW_COLUMNS float64, in this order; the first fifteen are the fields of Statistics.
COUNT: Final = 0
NAN_COUNT: Final = 1
POSITIVE_INF_COUNT: Final = 2
NEGATIVE_INF_COUNT: Final = 3
ZERO_COUNT: Final = 4
NEGATIVE_COUNT: Final = 5
POSITIVE_COUNT: Final = 6
MAX: Final = 7
MIN: Final = 8
FINITE_MAX: Final = 9  # int64 and uint64: the 64 bits of the exact integer
FINITE_MIN: Final = 10
AVG: Final = 11
L2NORM: Final = 12
STD: Final = 13
ABS_MEAN: Final = 14
DTYPE: Final = 15  # sonde.kernels.dtype_code of the elements
ROW_COLUMNS: Final = 16
NOT_IN_OUTLINE: Final = (ZERO_COUNT, NEGATIVE_COUNT, POSITIVE_COUNT, AVG, STD, ABS_MEAN)
"""The columns that an outline row (``kernels.outline_into``) lacks."""

HASHES: Final = ("md5", "xxh3")
"""The categories that are texts, not numbers: columns ROW_COLUMNS + index of ``format_rows``."""


CellBy = Literal["mean", "largest"]
"""What a cell of a heat map shows of its elements: their mean, or the one of largest magnitude."""


class Category(NamedTuple):
    """One entry of ``statistic_category``: its column title in ``statistic.csv`` and its column
    in a raw row; a hash has column ROW_COLUMNS + its place in HASHES."""

    heading: str
    column: int


CATEGORIES: Mapping[str, Category] = MappingProxyType(
    {
        "max": Category("Max Value", MAX),
        "min": Category("Min Value", MIN),
        "avg": Category("Avg Value", AVG),
        "count": Category("Count", COUNT),
        # MindSpore's names for the elements below and above zero.
        "negative zero count": Category("Negative Zero Count", NEGATIVE_COUNT),
        "positive zero count": Category("Positive Zero Count", POSITIVE_COUNT),
        "zero count": Category("Zero Count", ZERO_COUNT),
        "nan count": Category("NaN Count", NAN_COUNT),
        "negative inf count": Category("Negative Inf Count", NEGATIVE_INF_COUNT),
        "positive inf count": Category("Positive Inf Count", POSITIVE_INF_COUNT),
        "l2norm": Category("L2Norm Value", L2NORM),
        "md5": Category("MD5", ROW_COLUMNS),
        "std": Category("Std Value", STD),
        "abs mean": Category("Abs Mean Value", ABS_MEAN),
        "finite max": Category("Finite Max Value", FINITE_MAX),
        "finite min": Category("Finite Min Value", FINITE_MIN),
        "xxh3": Category("XXH3", ROW_COLUMNS + 1),
    }
)


def raw_column(name: str) -> int:
    """The column of a raw row that holds category ``name``."""
    category = CATEGORIES.get(name)
    if category is None:
        raise SondeError(
            f"{name!r} is not a statistic; choose from {', '.join(CATEGORIES)}",
            slug="statistics-category",
        )
    return category.column


@dataclass(frozen=True, slots=True)
class Statistics:
    """Summary numbers of one tensor, all from one pass; sums are accumulated in float64.

    - ``negative_count`` and ``positive_count``: elements < 0 and > 0, infinities included.
    - ``max``, ``min``: as IEEE orders them, NaN if any element is NaN; ``finite_max`` and
      ``finite_min`` leave non-finite elements out. Exact ``int`` for bool and integers.
    - ``avg``, ``abs_mean``, ``l2norm``: over all elements, so that NaN and Inf propagate.
    - ``std``: of the population (divided by count); NaN unless all elements are finite.
    - An undefined number (the maximum of an empty tensor, the finite maximum of NaNs) is NaN; the
      ``l2norm`` of an empty tensor is 0.
    """

    count: int
    nan_count: int
    positive_inf_count: int
    negative_inf_count: int
    zero_count: int
    negative_count: int
    positive_count: int
    max: float | int
    min: float | int
    finite_max: float | int
    finite_min: float | int
    avg: float
    l2norm: float
    std: float
    abs_mean: float

    @property
    def non_finite_count(self) -> int:
        return self.nan_count + self.positive_inf_count + self.negative_inf_count

    @property
    def abs_max(self) -> float | int:
        """The largest magnitude; NaN if any element is NaN or the tensor is empty."""
        high, low = abs(self.max), abs(self.min)
        return high if high >= low or isnan(high) else low

    def with_zeros(self, zeros: int) -> Statistics:
        """The statistics of the same elements and ``zeros`` (at least one) additional zeros."""
        if not self.count:
            nothing = dict.fromkeys((each.name for each in fields(self)), 0)
            return Statistics(**{**nothing, "count": zeros, "zero_count": zeros})
        count = self.count + zeros
        share = self.count / count
        return replace(
            self,
            count=count,
            zero_count=self.zero_count + zeros,
            max=self.max if isnan(self.max) else max(self.max, 0),
            min=self.min if isnan(self.min) else min(self.min, 0),
            finite_max=0 if isnan(self.finite_max) else max(self.finite_max, 0),
            finite_min=0 if isnan(self.finite_min) else min(self.finite_min, 0),
            avg=self.avg * share,
            std=self._std_with_zeros(share),
            abs_mean=self.abs_mean * share,
        )

    def _std_with_zeros(self, share: float) -> float:
        """``share`` is the share of the old elements. Without squares, which could overflow."""
        if isnan(self.std):
            return self.std
        return hypot(self.std * sqrt(share), self.avg * sqrt(share * (1 - share)))

    def __str__(self) -> str:
        return " · ".join([_values(self), *_oddities(self)])


def describe(statistics: Statistics, dtype: str, shape: Sequence[int]) -> str:
    """One line about a tensor, for people: ``float32 [32, 10] min -2.31 max 4.02 ...``."""
    text = _truth(statistics) if dtype == "bool" and statistics.count > 1 else str(statistics)
    return f"{type_text(dtype, shape)} {text}"


def type_text(dtype: str, shape: Sequence[int]) -> str:
    """``float32 [32, 10]``."""
    return f"{dtype} [{', '.join(map(str, shape))}]"


def _values(statistics: Statistics) -> str:
    """What the finite elements look like."""
    if statistics.count == 0:
        return "empty"
    low, high = statistics.finite_min, statistics.finite_max
    if statistics.non_finite_count == statistics.count:
        return "nothing finite"
    if statistics.count == 1:
        return f"value {_number(low)}"
    if low == high and not statistics.non_finite_count:
        return f"all {_number(low)}"
    extremes = f"min {_number(low)} max {_number(high)}"
    if statistics.non_finite_count:
        return f"finite {extremes}"
    return (
        f"{extremes} mean {_number(statistics.avg)} std {_number(statistics.std)} "
        f"norm {_number(statistics.l2norm)}"
    )


def _oddities(statistics: Statistics) -> list[str]:
    """What an engineer should not miss: elements that are not finite, and zeros among others."""
    found = [
        f"{count} {name}{_share_in_brackets(count, statistics.count)}"
        for name, count in (
            ("nan", statistics.nan_count),
            ("+inf", statistics.positive_inf_count),
            ("-inf", statistics.negative_inf_count),
        )
        if count
    ]
    if 0 < statistics.zero_count < statistics.count:
        found.append(f"{_share(statistics.zero_count, statistics.count)} zero")
    return found


def _truth(statistics: Statistics) -> str:
    trues = statistics.positive_count
    return f"{trues} of {statistics.count} true{_share_in_brackets(trues, statistics.count)}"


def _share(part: int, whole: int) -> str:
    """A percentage that is 0 or 100 only if that is exact."""
    percent = 100 * part / whole
    if part and percent < 0.1:
        return "<0.1%"
    if part < whole and percent > 99.9:
        return ">99.9%"
    return f"{percent:.2g}%" if percent < 99.5 else f"{percent:.3g}%"


def _share_in_brackets(part: int, whole: int) -> str:
    return f" ({_share(part, whole)})" if whole > 1 else ""


def _number(value: float | int) -> str:
    """Three significant digits; integers in full unless they are very long."""
    if isinstance(value, int):
        return str(value) if abs(value) < 10**9 else f"{value:.3e}"
    if isfinite(value) and value == int(value) and abs(value) < 1000:
        return str(int(value))
    return f"{value:.3g}"
