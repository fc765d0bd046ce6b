"""NaN and Inf: in a tensor, in a weight, in a gradient, and produced by an op."""

from __future__ import annotations

from dataclasses import dataclass

from sonde.core.statistics import Statistics
from sonde.watch.conditions.catalogue import Kind
from sonde.watch.conditions.contract import (
    STATISTICS_ONLY,
    Evidence,
    Judgement,
    Needs,
    Target,
    Value,
    non_finite_words,
    undecided,
)
from sonde.watch.conditions.screen import FINITE, Tests

_ADVICE = (
    "Look at the op that made the first of them: its inputs are finite. Check its input range "
    "(log, division, sqrt, exp), the learning rate, the loss scale, and the data of this step."
)


@dataclass(frozen=True, slots=True)
class Overflow:
    """#nan(x) + #inf(x) > 0; either part of a complex value counts. Undecided only if the values
    cannot be read."""

    id: str
    target: Target
    needs: Needs = STATISTICS_ONLY

    def judge(self, evidence: Evidence) -> Judgement:
        statistics = evidence.statistics
        if statistics is None:
            return self._judge_count(evidence)
        count = statistics.non_finite_count
        if not count:
            return Judgement("clear")
        values = tuple(
            Value(name, None, found)
            for name, found in (
                ("nan_count", statistics.nan_count),
                ("positive_inf_count", statistics.positive_inf_count),
                ("negative_inf_count", statistics.negative_inf_count),
            )
            if found
        )
        return Judgement("hit", non_finite_words(statistics), values)

    @staticmethod
    def _judge_count(evidence: Evidence) -> Judgement:
        count = evidence.non_finite
        if count is None:
            return undecided("no_statistics", evidence.missing or "the tensor has no statistics")
        if not count:
            return Judgement("clear")
        values = (Value("non_finite_count", None, count),)
        return Judgement("hit", f"{count} elements are NaN or infinite", values)

    def clears(self, statistics: Statistics) -> bool:
        return not (
            statistics.nan_count or statistics.positive_inf_count or statistics.negative_inf_count
        )

    @property
    def screen(self) -> Tests:
        return FINITE


@dataclass(frozen=True, slots=True)
class OperatorOverflow:
    """An op produced NaN or Inf from finite inputs."""

    id: str = "operator_overflow"
    target: Target = "tensor"

    @property
    def needs(self) -> Needs:
        return Needs(statistics=True, inputs=True)

    def judge(self, evidence: Evidence) -> Judgement:
        found = Overflow(self.id, self.target).judge(evidence)
        if found.verdict != "hit":
            return found
        if evidence.inputs_finite is None:
            return undecided("inputs_unknown", "the inputs of the op were not observed")
        return found if evidence.inputs_finite else Judgement("clear")

    def clears(self, statistics: Statistics) -> bool:
        return statistics.non_finite_count == 0

    @property
    def screen(self) -> Tests:
        return FINITE


def _overflow(id: str, title: str, abbreviation: str, target: Target, what: str) -> Kind:
    return Kind(
        id=id,
        title=title,
        abbreviation=abbreviation,
        target=target,
        formula="#nan(x) + #inf(x) > 0",
        description=f"{what} has NaN or infinite elements.",
        advice=_ADVICE,
        parameters=(),
        make=lambda _: Overflow(id, target),
    )


KINDS = (
    _overflow("tensor_overflow", "Tensor overflow", "TO", "tensor", "A tensor"),
    _overflow("weight_overflow", "Weight overflow", "WO", "weight", "A weight"),
    _overflow("gradient_exploding", "Gradient explosion", "GE", "gradient", "A gradient"),
    Kind(
        id="operator_overflow",
        title="Operator overflow",
        abbreviation="OO",
        target="tensor",
        formula="#nan(x) + #inf(x) > 0 and every input of the op is finite",
        description="The op itself made NaN or Inf; ops that only pass them on are left out.",
        advice=_ADVICE,
        parameters=(),
        make=lambda _: OperatorOverflow(),
    ),
)
