"""Conditions written by the user: ``nan_count > 0 or abs_max > 10 * prev.abs_max``.

`sonde.watch.expression_language` has the grammar and the three-valued logic; here are the names:
statistics of a tensor, those of its previous value (``prev.max``), and ``step``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from typing import Final

from sonde.core.errors import UsageError
from sonde.core.statistics import Statistics
from sonde.watch.conditions.contract import (
    Evidence,
    Judgement,
    Needs,
    NeverCleared,
    Target,
    Value,
    undecided,
)
from sonde.watch.expression_language import EvaluationContext, ExpressionError, Predicate, parse

_EXTRA: Final[Mapping[str, Callable[[Statistics], float]]] = {
    "abs_max": lambda s: s.abs_max,
    "non_finite_count": lambda s: s.non_finite_count,
    "inf_count": lambda s: s.positive_inf_count + s.negative_inf_count,
    "zero_percentage": lambda s: 100 * s.zero_count / s.count if s.count else math.nan,
    "mean": lambda s: s.avg,
    "range": lambda s: s.max - s.min,
}
STATISTIC_NAMES: Final = (*(each.name for each in fields(Statistics)), *_EXTRA)
NAMES: Final = (*STATISTIC_NAMES, *(f"prev.{name}" for name in STATISTIC_NAMES), "step")


@dataclass(frozen=True, slots=True)
class Expression(NeverCleared):
    """A condition written by the user; ``predicate`` is the compiled text."""

    text: str
    predicate: Predicate = field(compare=False, repr=False)
    uses_previous: bool
    id: str = "expression"
    target: Target = "tensor"

    @property
    def needs(self) -> Needs:
        return Needs(statistics=True, previous_statistics=self.uses_previous)

    def judge(self, evidence: Evidence) -> Judgement:
        if evidence.statistics is None:
            return undecided("no_statistics", evidence.missing or "the tensor has no statistics")
        names = _Names(evidence)
        context = EvaluationContext(names.value)
        found = self.predicate.truth(context)
        values = tuple(
            Value(name, None, None if math.isnan(number) else number)
            for name, number in names.used.items()
        )
        if found is None:
            return replace(undecided("undefined", names.why or context.why), values=values)
        return Judgement("hit" if found else "clear", "", values)


def parse_expression(text: str) -> Expression:
    """The condition ``text``; UsageError names the part that is not allowed, and its column."""
    used: set[str] = set()

    def check(name: str) -> str | None:
        used.add(name)
        plain = name.removeprefix("prev.")
        if name == "step" or plain in STATISTIC_NAMES:
            return None
        if "." in plain:
            return f"{name!r} cannot stand in an expression"
        near = get_close_matches(plain, STATISTIC_NAMES, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"use {', '.join(STATISTIC_NAMES)}"
        return f"{plain!r} is not known; {hint}"

    try:
        predicate = parse(text, check, "statistic")
    except ExpressionError as error:
        shown = text if len(text) <= 200 else f"{text[:40]}..."
        raise UsageError(
            f"the expression {shown!r} cannot be used: {error}", slug="expression"
        ) from None
    return Expression(text.strip(), predicate, any(name.startswith("prev.") for name in used))


class _Names:
    """The values of names in one evaluation; ``used`` collects them."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self.used: dict[str, float] = {}
        self.why = ""

    def value(self, name: str) -> float | None:
        if name == "step":
            return float(self._evidence.step)
        statistics, plain = self._evidence.statistics, name
        if name.startswith("prev."):
            statistics, plain = self._evidence.previous, name.removeprefix("prev.")
        if statistics is None:
            self.why = self.why or self._evidence.no_previous
            return None
        read = _EXTRA.get(plain)
        found = float(read(statistics) if read is not None else getattr(statistics, plain))
        self.used[name] = found
        return found
