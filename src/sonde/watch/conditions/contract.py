"""The interface of watch conditions: yes/no questions about a tensor and its previous value.

An answer has three values. "undecided" means that the condition cannot be evaluated (the tensor has
NaN, there is no previous value); it carries the reason and never counts as a hit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Literal, NamedTuple, Protocol

from sonde.core.statistics import Statistics
from sonde.watch.conditions.screen import Tests

Target = Literal["tensor", "weight", "gradient", "activation"]
Verdict = Literal["hit", "clear", "undecided"]
Bounds = tuple[float, float]
Tolerance = tuple[float, float]
ReasonCode = Literal[
    "no_statistics",
    "empty",
    "non_finite",
    "no_previous",
    "previous_non_finite",
    "inputs_unknown",
    "undefined",
    "not_a_fault",
    "not_yet_known",
]


class Reason(NamedTuple):
    """Why a condition is undecided. Results with an equal reason are reported together, once;
    ``subject`` distinguishes reasons of one code."""

    code: ReasonCode
    subject: str = ""


@dataclass(frozen=True, slots=True)
class Needs:
    """The evidence that a condition needs; ``|`` unites the needs of several conditions.

    The fields are named as those of Evidence. ``previous``: the values of the previous step;
    ``previous_statistics``: only their statistics. ``inputs``: whether the op's inputs were finite.
    ``initial_only``: evaluated only before the first step. ``at_step_end``: evaluated once a step,
    on the weight as it is at the end of the step.
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
        both = {each.name: getattr(self, each.name) | getattr(other, each.name) for each in _FIELDS}
        return Needs(**both | {"initial_only": self.initial_only and other.initial_only})


_FIELDS = fields(Needs)
STATISTICS_ONLY = Needs(statistics=True)


@dataclass(frozen=True, slots=True)
class Evidence:
    """The measured facts about one tensor in one step.

    ``between``: the number of elements within bounds, both included. ``apart``: the number of
    elements that changed since the previous step by more than a tolerance (relative, absolute);
    ``moved_sum``: the sum of |now - before|. ``missing`` says why there are no statistics,
    ``no_previous`` why there is no previous value. ``non_finite``: the number of elements that are
    NaN or infinite, if nothing else is known. ``inputs_finite`` is None if that is not known.
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
    """One parameter of a condition: the number that the user set, and the measured one."""

    name: str
    preset: float | None
    actual: float | int | None


@dataclass(frozen=True, slots=True)
class Judgement:
    """The result of a condition. ``why`` is a sentence for the user, empty if the values say it
    all; ``reason`` is set if the verdict is "undecided"."""

    verdict: Verdict
    why: str = ""
    values: tuple[Value, ...] = ()
    reason: Reason | None = None


class Condition(Protocol):
    """One question with its parameters. Frozen and hashable; independent of ops and files."""

    @property
    def id(self) -> str: ...
    @property
    def target(self) -> Target: ...
    @property
    def needs(self) -> Needs: ...
    def judge(self, evidence: Evidence) -> Judgement: ...
    def clears(self, statistics: Statistics) -> bool:
        """Whether ``statistics`` alone show, at little cost, that ``judge`` returns "clear"."""
        ...

    @property
    def screen(self) -> Tests | None:
        """``clears`` as tests for native code, which may clear fewer tensors but never more; None
        if a row of statistics is never enough."""
        ...


class NeverCleared:
    """The part of a condition that statistics of one step alone never clear."""

    __slots__ = ()

    def clears(self, statistics: Statistics) -> bool:
        return False

    @property
    def screen(self) -> None:
        return None


def is_plain(statistics: Statistics) -> bool:
    """Whether there are elements, and all are finite."""
    return not (
        statistics.nan_count
        or statistics.positive_inf_count
        or statistics.negative_inf_count
        or not statistics.count
    )


def count_within(statistics: Statistics, bounds: Bounds) -> int | None:
    """The number of elements of a finite tensor within bounds, both included, if it follows from
    the extremes and the counts of signs; None if the elements must be counted."""
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


def undecided(code: ReasonCode, why: str, *, subject: str | None = None) -> Judgement:
    """``subject`` is ``why`` unless it is given; give it if ``why`` contains counts."""
    return Judgement("undecided", why, reason=Reason(code, why if subject is None else subject))


def obstacle(evidence: Evidence) -> Judgement | None:
    """The undecided judgement of a tensor on which only overflow can be evaluated; else None."""
    statistics = evidence.statistics
    if statistics is None:
        return undecided("no_statistics", evidence.missing or "the tensor has no statistics")
    if statistics.count == 0:
        return undecided("empty", "the tensor is empty")
    if statistics.non_finite_count:
        why = f"the tensor has {non_finite_words(statistics)}"
        return undecided("non_finite", why, subject="")
    return None


def non_finite_words(statistics: Statistics) -> str:
    """Such as "3 NaN and 1 -Inf among 100 elements"."""
    counts = (
        ("NaN", statistics.nan_count),
        ("+Inf", statistics.positive_inf_count),
        ("-Inf", statistics.negative_inf_count),
    )
    found = [f"{count} {name}" for name, count in counts if count]
    return f"{' and '.join(found)} among {statistics.count} elements"


def join_all(judgements: Sequence[Judgement]) -> Judgement:
    """The judgement that all conditions hold: clear as soon as one is clear, else undecided as soon
    as one is undecided. Values and reasons are those of the conditions that decided it."""
    verdicts: tuple[Verdict, ...] = ("clear", "undecided", "hit")
    found = {each.verdict for each in judgements}
    verdict = next(each for each in verdicts if each in found)
    deciding = [each for each in judgements if each.verdict == verdict]
    values: dict[tuple[str, float | None], Value] = {}
    for each in deciding:
        values.update({(value.name, value.preset): value for value in each.values})
    why = "; ".join(dict.fromkeys(each.why for each in deciding if each.why))
    reasons = [each.reason for each in deciding if each.reason is not None]
    reason = None
    if reasons:
        reason = Reason(reasons[0].code, "; ".join(each.subject for each in reasons))
    return Judgement(verdict, why, tuple(values.values()), reason)
