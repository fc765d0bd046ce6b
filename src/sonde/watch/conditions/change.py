"""The change of a weight since the previous step: too large, too small, none."""

from __future__ import annotations

from dataclasses import dataclass

from sonde.core.statistics import Statistics
from sonde.watch.conditions.catalogue import Kind, Parameter
from sonde.watch.conditions.contract import (
    Evidence,
    Judgement,
    Needs,
    Target,
    Value,
    non_finite_words,
    obstacle,
    undecided,
)


def _obstacle(evidence: Evidence) -> Judgement | None:
    """``obstacle`` of the tensor, or that of its previous value."""
    found = obstacle(evidence)
    if found is not None:
        return found
    if evidence.previous is None:
        return undecided("no_previous", evidence.no_previous)
    if evidence.previous.non_finite_count:
        why = f"its value of the step before had {non_finite_words(evidence.previous)}"
        return undecided("previous_non_finite", why, subject="")
    return None


@dataclass(frozen=True, slots=True)
class NotChanged:
    """Every element: |x - p| <= atol + rtol * |p|."""

    rtol: float
    atol: float
    id: str = "weight_not_changed"
    target: Target = "weight"

    @property
    def needs(self) -> Needs:
        return Needs(statistics=True, apart=frozenset({(self.rtol, self.atol)}), at_step_end=True)

    def judge(self, evidence: Evidence) -> Judgement:
        found = _obstacle(evidence)
        if found is not None:
            return found
        apart = evidence.apart[self.rtol, self.atol]
        values = (Value("rtol", self.rtol, None), Value("changed_elements", None, apart))
        return Judgement("clear" if apart else "hit", "", values)

    def clears(self, statistics: Statistics) -> bool:
        return False

    @property
    def screen(self) -> None:
        return None


@dataclass(frozen=True, slots=True)
class UpdateRatio:
    """mean(|x - p|) / (mean(|p|) + epsilon), above or below a number."""

    id: str
    check: str
    preset: float
    epsilon: float
    target: Target = "weight"

    @property
    def needs(self) -> Needs:
        return Needs(statistics=True, moved=True, at_step_end=True)

    def judge(self, evidence: Evidence) -> Judgement:
        found = _obstacle(evidence)
        if found is not None:
            return found
        assert evidence.statistics is not None
        assert evidence.previous is not None
        assert evidence.moved_sum is not None
        moved = evidence.moved_sum / evidence.statistics.count
        actual = moved / (evidence.previous.abs_mean + self.epsilon)
        is_hit = actual > self.preset if self.check.endswith("_gt") else actual < self.preset
        values = (Value(self.check, self.preset, actual),)
        return Judgement("hit" if is_hit else "clear", "", values)

    def clears(self, statistics: Statistics) -> bool:
        return False

    @property
    def screen(self) -> None:
        return None


_EPSILON = Parameter(
    "epsilon",
    "added to the mean of |p|, against division by zero",
    check=False,
    default=1e-9,
    lowest=0.0,
    above=True,
)

KINDS = (
    Kind(
        id="weight_not_changed",
        title="Unchanged weight",
        abbreviation="WNC",
        target="weight",
        formula="for every element |x - p| <= atol + rtol * |p|",
        description="A weight is, within tolerance, what it was one step before.",
        advice=(
            "The learning rate is too low, the gradient is zero or missing, the weight is frozen, "
            "or it was never handed to the optimizer."
        ),
        parameters=(
            Parameter("rtol", "relative tolerance", check=False, default=1e-5, lowest=0.0),
            Parameter("atol", "absolute tolerance", check=False, default=1e-8, lowest=0.0),
        ),
        make=lambda given: NotChanged(given["rtol"], given["atol"]),
    ),
    Kind(
        id="weight_change_too_large",
        title="Weight change above threshold",
        abbreviation="WCL",
        target="weight",
        formula="mean(|x - p|) / (mean(|p|) + epsilon) > v",
        description="A step moved a weight far, compared with its size.",
        advice="Lower the learning rate, warm it up, or clip gradients.",
        parameters=(
            Parameter(
                "abs_mean_update_ratio_gt", "the ratio is above this", default=0.1, lowest=0.0
            ),
            _EPSILON,
        ),
        make=lambda given: UpdateRatio(
            "weight_change_too_large",
            "abs_mean_update_ratio_gt",
            given["abs_mean_update_ratio_gt"],
            given["epsilon"],
        ),
    ),
    Kind(
        id="weight_change_too_small",
        title="Weight change below threshold",
        abbreviation="WCS",
        target="weight",
        formula="mean(|x - p|) / (mean(|p|) + epsilon) < v",
        description="A step hardly moved a weight, compared with its size.",
        advice="Raise the learning rate; look for gradients that vanish before this layer.",
        parameters=(
            Parameter(
                "abs_mean_update_ratio_lt", "the ratio is below this", default=1e-4, lowest=0.0
            ),
            _EPSILON,
        ),
        make=lambda given: UpdateRatio(
            "weight_change_too_small",
            "abs_mean_update_ratio_lt",
            given["abs_mean_update_ratio_lt"],
            given["epsilon"],
        ),
    ),
)
