"""The change of a weight since the previous step: too large, too small, none."""

from __future__ import annotations

from dataclasses import dataclass

from sonde.watch.conditions.catalogue import REPORTING, Kind, Parameter
from sonde.watch.conditions.contract import (
    Evidence,
    Judgement,
    Needs,
    NeverCleared,
    Target,
    Value,
    non_finite_words,
    obstacle,
    undecided,
)

_CHANGE = Needs(statistics=True, moved=True, at_step_end=True)


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
class NotChanged(NeverCleared):
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


@dataclass(frozen=True, slots=True)
class UpdateRatio(NeverCleared):
    """mean(|x - p|) / (mean(|p|) + epsilon), above or below a number."""

    id: str
    check: str
    preset: float
    epsilon: float
    target: Target = "weight"
    needs: Needs = _CHANGE

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


_EPSILON = Parameter(
    "epsilon",
    "added to the mean of |p|, against division by zero",
    check=False,
    default=1e-9,
    lowest=0.0,
    above=True,
)


def _ratio_kind(
    id: str, title: str, abbreviation: str, check: Parameter, *, description: str, advice: str
) -> Kind:
    relation = ">" if check.name.endswith("_gt") else "<"
    return Kind(
        id=id,
        title=title,
        abbreviation=abbreviation,
        target="weight",
        formula=f"mean(|x - p|) / (mean(|p|) + epsilon) {relation} v",
        description=description,
        advice=advice,
        parameters=(check, _EPSILON, *REPORTING),
        make=lambda _, given: UpdateRatio(id, check.name, given[check.name], given["epsilon"]),
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
            *REPORTING,
        ),
        make=lambda _, given: NotChanged(given["rtol"], given["atol"]),
    ),
    _ratio_kind(
        "weight_change_too_large",
        "Weight change above threshold",
        "WCL",
        Parameter("abs_mean_update_ratio_gt", "the ratio is above this", default=0.1, lowest=0.0),
        description="A step moved a weight far, compared with its size.",
        advice="Lower the learning rate, warm it up, or clip gradients.",
    ),
    _ratio_kind(
        "weight_change_too_small",
        "Weight change below threshold",
        "WCS",
        Parameter("abs_mean_update_ratio_lt", "the ratio is below this", default=1e-4, lowest=0.0),
        description="A step hardly moved a weight, compared with its size.",
        advice="Raise the learning rate; look for gradients that vanish before this layer.",
    ),
)
