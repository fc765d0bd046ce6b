"""Gradients are cleared between the backward pass and the step, so that the step has none."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding

STRIKES = 3


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    for each in evidence.optimizers:
        if each.cleared_before >= STRIKES and each.cleared_before >= 0.9 * each.steps:
            yield finding(
                "zero-grad-before-step",
                "established",
                f"the gradients are cleared{at(each.cleared)} after the backward pass and before "
                f"{each.name} steps{at(each.stepped)}: it never has a gradient",
                step=0,
                where=[each.cleared, each.stepped, each.name, each.variable],
                evidence={"steps": each.steps, "steps_without_gradient": each.cleared_before},
                advice=f"move zero_grad(){at(each.cleared)} before the backward pass",
            )


RULE = DiagnosisRule(
    "zero-grad-before-step",
    judge,
    "Steps that have a gradient all the same; a GAN that clears before its next own backward pass.",
    explains=("zero-init", "lr-too-low", "unused-parameters", "dead-relu"),
)
