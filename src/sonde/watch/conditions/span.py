"""The share of elements within a range, and the distance between minimum and maximum."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sonde.core.errors import UsageError
from sonde.core.statistics import Statistics
from sonde.watch.conditions.catalogue import REPORTING, Kind, Parameter
from sonde.watch.conditions.contract import (
    Bounds,
    Evidence,
    Judgement,
    Needs,
    Target,
    Value,
    count_within,
    is_plain,
    obstacle,
)
from sonde.watch.conditions.screen import PLAIN, Test, TestKind, Tests, compared

_PERCENTAGES = ("range_percentage_lt", "range_percentage_gt")


@dataclass(frozen=True, slots=True)
class Span:
    """100 * #(start <= x <= end) / n, or max(x) - min(x), above or below numbers."""

    id: str
    target: Target
    bounds: Bounds | None
    checks: tuple[tuple[str, float], ...]

    @property
    def needs(self) -> Needs:
        bounds = frozenset(() if self.bounds is None else (self.bounds,))
        return Needs(statistics=True, between=bounds)

    def judge(self, evidence: Evidence) -> Judgement:
        found = obstacle(evidence)
        if found is not None:
            return found
        assert evidence.statistics is not None
        within = None if self.bounds is None else evidence.between[self.bounds]
        values, is_hit = [], False
        for name, preset in self.checks:
            actual = _actual(name, evidence.statistics, within)
            values.append(Value(name, preset, actual))
            is_hit = is_hit or _holds(name, actual, preset)
        return Judgement("hit" if is_hit else "clear", "", tuple(values))

    def clears(self, statistics: Statistics) -> bool:
        if not is_plain(statistics):
            return False
        within = None if self.bounds is None else count_within(statistics, self.bounds)
        if self.bounds is not None and within is None:
            return False
        return not any(
            _holds(name, _actual(name, statistics, within), preset) for name, preset in self.checks
        )

    @property
    def screen(self) -> Tests:
        return (PLAIN, *(self._test(name, preset) for name, preset in self.checks))

    def _test(self, name: str, preset: float) -> Test:
        if name not in _PERCENTAGES:
            return compared(name, preset)
        assert self.bounds is not None
        is_below = name.endswith("_lt")
        return (TestKind.SHARE_BELOW if is_below else TestKind.SHARE_ABOVE, *self.bounds, preset)


def _actual(name: str, statistics: Statistics, within: int | None) -> float:
    """The measured number of a check; ``within`` is the number of elements within the bounds."""
    if name in _PERCENTAGES:
        assert within is not None
        return 100 * within / statistics.count
    return float(statistics.max - statistics.min)


def _holds(name: str, actual: float, preset: float) -> bool:
    return actual < preset if name.endswith("_lt") else actual > preset


def _make(kind: Kind, given: Mapping[str, float]) -> Span:
    start, end = given.get("range_start_inclusive"), given.get("range_end_inclusive")
    needs_bounds = any(name in given for name in _PERCENTAGES)
    if needs_bounds and (start is None or end is None):
        raise UsageError(
            f"{kind.id}: a percentage needs both range_start_inclusive and range_end_inclusive",
            slug="condition-parameter",
        )
    if start is not None and end is not None and start > end:
        raise UsageError(
            f"{kind.id}: range_start_inclusive {start:g} is above range_end_inclusive {end:g}",
            slug="condition-parameter",
        )
    if not needs_bounds and (start is not None or end is not None):
        raise UsageError(
            f"{kind.id}: a range is of use only with range_percentage_lt or range_percentage_gt",
            slug="condition-parameter",
        )
    bounds = (start, end) if start is not None and end is not None else None
    checks = tuple((name, value) for name, value in given.items() if not name.endswith("inclusive"))
    return Span(kind.id, kind.target, bounds, checks)


def _kind(id: str, title: str, abbreviation: str, target: Target, what: str) -> Kind:
    return Kind(
        id=id,
        title=title,
        abbreviation=abbreviation,
        target=target,
        formula=("100 * #(start <= x <= end) / n < v, or > v; max(x) - min(x) < v, or > v"),
        description=f"The values of {what} leave the range they should be in, or never leave it.",
        advice=(
            "An activation whose values all lie where it is flat passes no gradient on: check what "
            "comes into it, the initialization and the learning rate."
        ),
        parameters=(
            Parameter("range_start_inclusive", "the lower end of the range", check=False),
            Parameter("range_end_inclusive", "the upper end of the range", check=False),
            Parameter(
                "range_percentage_lt",
                "less than so many per cent of the elements are in the range",
                lowest=0.0,
                highest=100.0,
            ),
            Parameter(
                "range_percentage_gt",
                "more than so many per cent of the elements are in the range",
                lowest=0.0,
                highest=100.0,
            ),
            Parameter("max_min_lt", "maximum less minimum is below this", lowest=0.0, above=True),
            Parameter("max_min_gt", "maximum less minimum is above this", lowest=0.0),
            *REPORTING,
        ),
        make=_make,
    )


KINDS = (
    _kind("activation_range", "Activation value range", "AR", "activation", "an activation"),
    _kind("tensor_range", "Tensor value range", "TR", "tensor", "a tensor"),
)
