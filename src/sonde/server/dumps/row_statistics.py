"""The statistics in a row of ``statistic.csv``, which may be all that a dump has."""

from __future__ import annotations

from math import inf, isfinite, isnan, prod
from typing import Final, cast

from sonde.core.statistics import Statistics
from sonde.dump.reading.statistic_rows import StatisticRow
from sonde.watch.measured_tensor import MissingStatisticError
from sonde.wire.convert import known_numbers
from sonde.wire.shapes import StatisticNumbers

_FIELDS: Final = {
    "max": "max",
    "min": "min",
    "avg": "avg",
    "l2norm": "l2norm",
    "std": "std",
    "abs mean": "abs_mean",
    "finite max": "finite_max",
    "finite min": "finite_min",
    "nan count": "nan_count",
    "positive inf count": "positive_inf_count",
    "negative inf count": "negative_inf_count",
    "zero count": "zero_count",
    "negative zero count": "negative_count",
    "positive zero count": "positive_count",
}
_SIGNS: Final = ("zero_count", "negative_count", "positive_count")
_NON_FINITE: Final = ("nan_count", "positive_inf_count", "negative_inf_count")


class RowStatistics:
    """The ``Statistics`` that a row has; to read another one raises MissingStatisticError.

    Counts of NaN and Inf that the row lacks are derived from its other numbers: 0 if those are all
    finite, else 1, which means "some".
    """

    __slots__ = ("_known",)

    def __init__(self, row: StatisticRow) -> None:
        known: dict[str, float | int] = {}
        for name, value in row.values.items():
            field = _FIELDS.get(name)
            if field is not None and not isinstance(value, str):
                known[field] = value
        known["count"] = prod(row.shape)
        _complete(known)
        self._known = known

    def __getattr__(self, name: str) -> float | int:
        found = self._known.get(name)
        if found is None:
            if name in Statistics.__dataclass_fields__:
                raise MissingStatisticError(name)
            raise AttributeError(name)
        return found

    @property
    def non_finite_count(self) -> int:
        return int(sum(self.__getattr__(name) for name in _NON_FINITE))

    @property
    def has_nan(self) -> bool:
        return bool(self._known.get("nan_count"))

    @property
    def has_inf(self) -> bool:
        return any(self._known.get(name) for name in _NON_FINITE[1:])

    @property
    def abs_max(self) -> float | int:
        high, low = abs(self.__getattr__("max")), abs(self.__getattr__("min"))
        return high if high >= low or isnan(high) else low

    def as_statistics(self) -> Statistics:
        """For code that only reads attributes."""
        return cast(Statistics, self)

    def numbers(self) -> StatisticNumbers:
        return known_numbers(self._known)


def _complete(known: dict[str, float | int]) -> None:
    """Add the numbers that follow from others."""
    if not known["count"]:
        known.update(dict.fromkeys((*_NON_FINITE, *_SIGNS), 0))
        return
    sums = [known[name] for name in ("l2norm", "avg") if name in known]
    ends = [known[name] for name in ("max", "min") if name in known]
    if sums or len(ends) == 2:
        has_nan = any(isnan(value) for value in (*sums, *ends))
        all_finite = any(isfinite(value) for value in sums) or (
            len(ends) == 2 and all(isfinite(value) for value in ends)
        )
        known.setdefault("nan_count", int(has_nan))
        has_more = known.get("max") == inf or (len(ends) < 2 and not all_finite and not has_nan)
        known.setdefault("positive_inf_count", int(has_more))
        known.setdefault("negative_inf_count", int(known.get("min") == -inf))
    if all(known.get(name) == 0 for name in _NON_FINITE):
        for name in ("max", "min"):
            if name in known:
                known.setdefault(f"finite_{name}", known[name])
