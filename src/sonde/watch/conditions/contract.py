"""What a watch condition is: a yes/no question about a tensor now and, maybe, one step before.

An answer has three values. "undecided" means that the question cannot be answered (a NaN is in the
way, there is no former value) and says why; it is never taken for a hit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from sonde.core.statistics import Statistics
from sonde.watch.conditions.screen import Tests

Target = Literal["tensor", "weight", "gradient", "activation"]
Verdict = Literal["hit", "clear", "undecided"]
Bounds = tuple[float, float]
Tolerance = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Needs:
    """What a condition must be told. Several conditions are served by the union of their needs.

    The fields are named as those of Evidence. ``previous``: the values of the step before;
    ``previous_statistics``: only their statistics.
    ``inputs``: whether the op's inputs were finite. ``initial_only``: asked before the first step
    alone. ``at_step_end``: asked once a step, of what a weight is when the step is over.
    """

    statistics: bool = False
    between: frozenset[Bounds] = frozenset()
    apart: frozenset[Tolerance] = frozenset()
    moved: bool = False
    previous_statistics: bool = False
    inputs: bool = False
    initial_only: bool = False
    at_step_end: bool = False

    @property
    def previous(self) -> bool:
        return self.moved or bool(self.apart)

    def __or__(self, other: Needs) -> Needs:
        return Needs(
            statistics=self.statistics or other.statistics,
            between=self.between | other.between,
            apart=self.apart | other.apart,
            moved=self.moved or other.moved,
            previous_statistics=self.previous_statistics or other.previous_statistics,
            inputs=self.inputs or other.inputs,
            initial_only=self.initial_only and other.initial_only,
            at_step_end=self.at_step_end or other.at_step_end,
        )


STATISTICS_ONLY = Needs(statistics=True)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of one tensor at one step.

    ``between``: elements within bounds, both included. ``apart``: elements that moved since the
    step before by more than a tolerance (relative, absolute); ``moved_sum``: of |now - before|.
    ``missing`` says why there are no statistics, ``no_previous`` why there is no former value.
    ``non_finite``: elements that are NaN or infinite, where that is all that is known.
    ``inputs_finite`` is None where nobody looked.
    """

    statistics: Statistics | None = None
    missing: str = ""
    between: Mapping[Bounds, int] = field(default_factory=dict)
    apart: Mapping[Tolerance, int] = field(default_factory=dict)
    moved_sum: float | None = None
    previous: Statistics | None = None
    no_previous: str = "there is no value of the step before"
    inputs_finite: bool | None = None
    non_finite: int | None = None
    step: int = 0


@dataclass(frozen=True, slots=True)
class Value:
    """One parameter that was asked about: what was set, and what was found."""

    name: str
    preset: float | None
    actual: float | int | None


@dataclass(frozen=True, slots=True)
class Judgement:
    """The answer, in ``why`` as a sentence where it is no plain yes or no."""

    verdict: Verdict
    why: str = ""
    values: tuple[Value, ...] = ()


class Condition(Protocol):
    """One question with its parameters. Frozen, hashable, knows nothing of ops and files."""

    @property
    def id(self) -> str: ...
    @property
    def target(self) -> Target: ...
    @property
    def needs(self) -> Needs: ...
    def judge(self, evidence: Evidence) -> Judgement: ...
    def clears(self, statistics: Statistics) -> bool:
        """Whether these alone show, at little cost, that ``judge`` would say "clear"; False where
        more must be known, or there is something to tell."""
        ...

    @property
    def screen(self) -> Tests | None:
        """The same as tests for native code, which may clear less, never more; None where a
        row of statistics never shows it."""
        ...


def is_plain(statistics: Statistics) -> bool:
    """Whether there are elements, and all are finite."""
    return not (
        statistics.nan_count
        or statistics.positive_inf_count
        or statistics.negative_inf_count
        or not statistics.count
    )


def count_within(statistics: Statistics, bounds: Bounds) -> int | None:
    """How many elements of a plain tensor lie within bounds, both included, if its extremes and
    the counts of signs tell. None if one must look."""
    low, high = bounds
    if statistics.min >= low and statistics.max <= high:
        return statistics.count
    if statistics.max < low or statistics.min > high:
        return 0
    if high == 0 and statistics.min >= low:
        return statistics.zero_count + statistics.negative_count
    if low == 0 and statistics.max <= high:
        return statistics.zero_count + statistics.positive_count
    return None


def undecided(why: str) -> Judgement:
    return Judgement("undecided", why)


def obstacle(evidence: Evidence) -> str:
    """Why nothing but overflow can be judged of this tensor; empty if it can."""
    statistics = evidence.statistics
    if statistics is None:
        return evidence.missing or "the tensor has no statistics"
    if statistics.count == 0:
        return "the tensor is empty"
    if statistics.non_finite_count:
        return f"the tensor has {non_finite_words(statistics)}"
    return ""


def non_finite_words(statistics: Statistics) -> str:
    """Such as "3 NaN and 1 -Inf among 100 elements"."""
    counts = (
        ("NaN", statistics.nan_count),
        ("+Inf", statistics.positive_inf_count),
        ("-Inf", statistics.negative_inf_count),
    )
    found = [f"{count} {name}" for name, count in counts if count]
    return f"{' and '.join(found)} among {statistics.count} elements"
