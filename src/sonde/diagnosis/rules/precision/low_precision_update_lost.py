"""Updates are smaller than the precision of the weights, and are rounded away."""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import median

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding

LOW = ("bfloat16", "float16")
LOST = 0.5
SAMPLES = 3


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    lost = [
        each
        for each in evidence.parameters
        if each.dtype in LOW
        and each.optimizer is not None
        and len(each.shape) >= 2
        and sum(_is_lost(sample.lost, sample.rate, sample.gradient) for sample in each.samples)
        >= max(SAMPLES, 0.6 * len(each.samples))
    ]
    if not lost:
        return
    optimizer = evidence.optimizer(lost[0].optimizer)
    worst = max(lost, key=lambda each: median(sample.lost for sample in each.samples))
    share = median(sample.lost for sample in worst.samples)
    names = [each.name for each in lost]
    created = None if optimizer is None else optimizer.created
    variable = "" if optimizer is None else optimizer.variable
    yield finding(
        "low-precision-update-lost",
        "established",
        f"{share:.0%} of the elements of {worst.name} do not change in a step although they have a "
        f"gradient: the update is below half a unit in the last place of {worst.dtype}",
        step=worst.samples[0].step,
        where=[created, *names[:4], worst.dtype, worst.optimizer, variable],
        evidence={
            "share_lost": share,
            "rate": worst.samples[0].rate,
            "weight_norm": worst.samples[0].weight,
            "gradient_norm": worst.samples[0].gradient,
        },
        advice="keep the weights (or a master copy) in float32 and use autocast, or use stochastic "
        f"rounding{at(created)}",
    )


def _is_lost(lost: float, rate: float, gradient: float | None) -> bool:
    return lost > LOST and rate > 0 and gradient is not None and math.isfinite(gradient)


RULE = DiagnosisRule(
    "low-precision-update-lost",
    judge,
    "float32 weights; a rate of zero; less than half of the elements; gradients that are zero or "
    "not finite.",
    explains=("lr-too-low", "optimizer-skips-noncontiguous"),
)
