"""Adam's eps is zero in the precision of the weights."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding

SMALLEST = 2.0**-25


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    for each in evidence.optimizers:
        eps = each.options.get("eps")
        half = [
            one
            for one in evidence.parameters
            if one.optimizer == each.name and one.dtype == "float16" and one.reached
        ]
        if not half or not isinstance(eps, float) or eps > SMALLEST or each.steps < 1:
            continue
        yield finding(
            "adam-eps-underflow",
            "established",
            f"eps={eps:g} of {each.name}{at(each.created)} is zero in float16, the type of "
            f"{half[0].name}: small second moments divide by zero",
            step=0,
            where=[each.created, each.name, each.variable, half[0].name],
            evidence={"eps": eps, "smallest_float16": 2.0**-24, "parameters": len(half)},
            advice=f"use eps=1e-4 or larger{at(each.created)}, or keep the weights in float32",
        )
        return


RULE = DiagnosisRule(
    "adam-eps-underflow",
    judge,
    "float32 and bfloat16 weights; an eps of at least 2**-25.",
    explains=("non-finite-loss", "non-finite-op", "exploding-gradient", "lr-too-high"),
)
