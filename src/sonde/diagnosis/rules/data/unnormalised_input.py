"""The inputs are far from the scale of one, and the training suffers from it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import median

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding
from sonde.diagnosis.rules.loop.lr_too_high import fails

LARGE = 10.0
FLAT = 0.6
LEARNED = 0.8


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    event = evidence.first("first-input")
    if event is None:
        return
    size = float(event.numbers["largest_feature"] or 0)
    flat = evidence.first("activation-flat")
    share = 0.0 if flat is None else float(flat.numbers["share"] or 0)
    if not LARGE <= size < math.inf:  # NaN and infinities have other causes.
        return
    is_flat = share >= FLAT
    suffers = is_flat or fails(evidence) or _learns_nothing(evidence)
    layer = event.subject or "the first layer"
    symptom = f", and {share:.0%} of the first activation is saturated" if is_flat else ""
    yield finding(
        "unnormalised-input",
        "supported" if suffers else "hypothesis",
        f"{layer}{at(event.source)} is given features of a size of up to {size:.3g} (root mean "
        f"square), the smallest {float(event.numbers['smallest_feature'] or 0):.3g}{symptom}",
        step=0,
        where=[event.source, event.subject, None if flat is None else flat.source],
        evidence={**event.numbers, "saturated": share},
        advice="subtract the mean and divide by the standard deviation of the training data before "
        f"{layer}{at(event.source)}, or begin the model with a normalisation",
    )


def _learns_nothing(evidence: TrainingEvidence) -> bool:
    """Whether the loss ends where a constant prediction would be."""
    event = evidence.first("target-spread")
    losses = evidence.losses
    if event is None or len(losses) < 20:
        return False
    end = median(losses[-len(losses) // 4 :])
    return end > LEARNED * float(event.numbers["constant"] or 0) > 0


RULE = DiagnosisRule(
    "unnormalised-input",
    judge,
    "Features of a size below 10; a model that begins with a normalisation or an embedding; a "
    "module that cannot be probed. A hypothesis if the training learns all the same.",
    explains=("lr-too-high", "lr-too-low", "dead-relu", "exploding-gradient", "vanishing-gradient"),
)
