"""Statistics of a tensor above or below a threshold: level, spread, zeros."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import sqrt
from typing import Final, Literal

from sonde.core.statistics import Statistics
from sonde.watch.conditions.catalogue import REPORTING, Kind, Parameter
from sonde.watch.conditions.contract import (
    STATISTICS_ONLY,
    Evidence,
    Judgement,
    Needs,
    Target,
    Value,
    is_plain,
    obstacle,
)
from sonde.watch.conditions.screen import PLAIN, Tests, compared

_READ: Final[Mapping[str, Callable[[Statistics], float]]] = {
    "abs_mean": operator.attrgetter("abs_mean"),
    "max": operator.attrgetter("max"),
    "min": operator.attrgetter("min"),
    "mean": operator.attrgetter("avg"),
    "sd": lambda s: sample_deviation(s),
    "zero_percentage": lambda s: 100 * s.zero_count / s.count,
}
_HOLDS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "gt": operator.gt,
    "lt": operator.lt,
    "ge": operator.ge,
}


def sample_deviation(statistics: Statistics) -> float:
    """The standard deviation with the divisor n - 1; 0 for a single element."""
    if statistics.count < 2:
        return 0.0
    return statistics.std * sqrt(statistics.count / (statistics.count - 1))


_Comparison = tuple[Callable[[Statistics], float], Callable[[float, float], bool], float]


def _comparison(name: str, preset: float) -> _Comparison:
    statistic, _, relation = name.rpartition("_")
    return _READ[statistic], _HOLDS[relation], preset


@dataclass(frozen=True, slots=True)
class Threshold:
    """One or more statistics compared with a number each; a hit if one comparison holds.

    ``checks``: parameter names such as ``abs_mean_gt`` and their numbers. Comparisons are strict,
    except ``_ge``. Undecided for tensors that are empty or have NaN or Inf.
    """

    id: str
    target: Target
    checks: tuple[tuple[str, float], ...]
    needs: Needs = STATISTICS_ONLY
    _comparisons: tuple[_Comparison, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "_comparisons", tuple(_comparison(*check) for check in self.checks)
        )

    def clears(self, statistics: Statistics) -> bool:
        if not is_plain(statistics):
            return False
        for read, holds, preset in self._comparisons:  # noqa: SIM110, runs for every op of a step
            if holds(read(statistics), preset):
                return False
        return True

    @property
    def screen(self) -> Tests:
        return (PLAIN, *(compared(name, preset) for name, preset in self.checks))

    def judge(self, evidence: Evidence) -> Judgement:
        found = obstacle(evidence)
        if found is not None:
            return found
        assert evidence.statistics is not None
        values, is_hit = [], False
        for (name, _), (read, holds, preset) in zip(self.checks, self._comparisons, strict=True):
            actual = read(evidence.statistics)
            values.append(Value(name, preset, actual))
            is_hit = is_hit or holds(actual, preset)
        return Judgement("hit" if is_hit else "clear", "", tuple(values))


def _make(kind: Kind, given: Mapping[str, float]) -> Threshold:
    return Threshold(kind.id, kind.target, tuple(given.items()))


def _make_initial(kind: Kind, given: Mapping[str, float]) -> Threshold:
    return replace(_make(kind, given), needs=Needs(statistics=True, initial_only=True))


def _level_kind(
    id: str, title: str, abbreviation: str, target: Target, relation: Literal["gt", "lt"]
) -> Kind:
    """A condition on the mean of |x|, the maximum, the minimum or the mean."""
    word, sign = ("above", ">") if relation == "gt" else ("below", "<")
    return Kind(
        id,
        title,
        abbreviation,
        target,
        formula=f"mean(|x|) {sign} v, max(x) {sign} v, min(x) {sign} v or mean(x) {sign} v",
        description=f"A statistic of a {target} is {word} a threshold.",
        advice=_LARGE_ADVICE if relation == "gt" else _SMALL_ADVICE,
        parameters=(
            Parameter(f"abs_mean_{relation}", f"the mean of |x| is {word} this", lowest=0.0),
            Parameter(f"max_{relation}", f"the maximum is {word} this"),
            Parameter(f"min_{relation}", f"the minimum is {word} this"),
            Parameter(f"mean_{relation}", f"the mean is {word} this"),
            *REPORTING,
        ),
        make=_make,
    )


_LARGE_ADVICE = (
    "Values that grow from step to step end in Inf: lower the learning rate, check the "
    "initialization and normalization, clip gradients."
)
_SMALL_ADVICE = (
    "Values that vanish stop the layers before them from learning: check the activation functions, "
    "the initialization, the loss and its scale."
)
_ZEROS = Parameter(
    "zero_percentage_ge",
    "at least so many per cent of the elements are zero",
    default=100.0,
    lowest=0.0,
    highest=100.0,
)

KINDS = (
    _level_kind("tensor_too_large", "Tensor above threshold", "TL", "tensor", "gt"),
    _level_kind("weight_too_large", "Weight above threshold", "WL", "weight", "gt"),
    _level_kind("gradient_too_large", "Gradient above threshold", "GL", "gradient", "gt"),
    _level_kind("tensor_too_small", "Tensor below threshold", "TS", "tensor", "lt"),
    _level_kind("weight_too_small", "Weight below threshold", "WS", "weight", "lt"),
    _level_kind("gradient_vanishing", "Gradient disappearance", "GV", "gradient", "lt"),
    Kind(
        "tensor_all_zero",
        "Tensor of zeros",
        "TZ",
        "tensor",
        formula="100 * #(x == 0) / n >= v",
        description="So many per cent of the elements are zero.",
        advice=(
            "Find the first op whose output is zero though its inputs are not: a dead activation, "
            "a mask that hides everything, a multiplication by a zero scale."
        ),
        parameters=(_ZEROS, *REPORTING),
        make=_make,
    ),
    Kind(
        "tensor_deviation",
        "Standard deviation",
        "SD",
        "tensor",
        formula="sqrt(sum((x - mean(x))^2) / (n - 1)) > v, or < v",
        description="The standard deviation of a tensor is above or below a threshold.",
        advice=(
            "A spread that shrinks to nothing means that all examples look alike to the layers "
            "behind; one that grows, that normalization is missing."
        ),
        parameters=(
            Parameter("sd_gt", "the standard deviation is above this", lowest=0.0),
            Parameter("sd_lt", "the standard deviation is below this", lowest=0.0),
        ),
        make=_make,
    ),
    Kind(
        "weight_initialization",
        "Initial weight value",
        "WI",
        "weight",
        formula="before the first step: 100 * #(x == 0) / n >= v, max(x) > v or min(x) < v",
        description="A weight starts with values it should not have.",
        advice="Initialize the weight; zeros keep units from ever differing from each other.",
        parameters=(
            _ZEROS,
            Parameter("max_gt", "the maximum is above this"),
            Parameter("min_lt", "the minimum is below this"),
        ),
        make=_make_initial,
    ),
)
