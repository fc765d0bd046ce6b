"""NaN and Inf: in a tensor, in a weight, in a gradient, and produced by an op."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

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
    "Check the inputs of the op that made the first of them (log, division, sqrt, exp), the "
    "learning rate, the loss scale, and the data of this step."
)


@dataclass(frozen=True, slots=True)
class Overflow:
    """#nan(x) + #inf(x) > 0; either part of a complex value counts. Undecided only if the values
    cannot be read. If ``needs`` contains ``inputs``, the inputs of the op must be finite."""

    id: str
    target: Target
    needs: Needs = STATISTICS_ONLY

    def judge(self, evidence: Evidence) -> Judgement:
        found = _judge_values(evidence)
        if found.verdict != "hit" or not self.needs.inputs:
            return found
        if evidence.inputs_finite is None:
            return undecided("inputs_unknown", "the inputs of the op were not observed")
        return found if evidence.inputs_finite else Judgement("clear")

    def clears(self, statistics: Statistics) -> bool:
        return not (
            statistics.nan_count or statistics.positive_inf_count or statistics.negative_inf_count
        )

    @property
    def screen(self) -> Tests:
        return FINITE


def _judge_values(evidence: Evidence) -> Judgement:
    statistics = evidence.statistics
    if statistics is None:
        count = evidence.non_finite
        if count is None:
            return undecided("no_statistics", evidence.missing or "the tensor has no statistics")
        why, counts = f"{count} elements are NaN or infinite", {"non_finite_count": count}
    else:
        names = ("nan_count", "positive_inf_count", "negative_inf_count")
        counts = {name: getattr(statistics, name) for name in names}
        why = non_finite_words(statistics)
    values = tuple(Value(name, None, count) for name, count in counts.items() if count)
    return Judgement("hit", why, values) if values else Judgement("clear")


def _make(kind: Kind, _: Mapping[str, float]) -> Overflow:
    return Overflow(kind.id, kind.target)


def _kind(id: str, title: str, abbreviation: str, target: Target) -> Kind:
    return Kind(
        id,
        title,
        abbreviation,
        target,
        formula="#nan(x) + #inf(x) > 0",
        description=f"A {target} has NaN or infinite elements.",
        advice=_ADVICE,
        parameters=(),
        make=_make,
    )


KINDS = (
    _kind("tensor_overflow", "Tensor overflow", "TO", "tensor"),
    _kind("weight_overflow", "Weight overflow", "WO", "weight"),
    _kind("gradient_exploding", "Gradient explosion", "GE", "gradient"),
    replace(
        _kind("operator_overflow", "Operator overflow", "OO", "tensor"),
        formula="#nan(x) + #inf(x) > 0 and every input of the op is finite",
        description="The op itself made NaN or Inf; ops that only pass them on are left out.",
        make=lambda kind, _: Overflow(kind.id, kind.target, Needs(statistics=True, inputs=True)),
    ),
)
