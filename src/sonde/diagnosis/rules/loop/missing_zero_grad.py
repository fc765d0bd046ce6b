"""Gradients of earlier steps are never cleared, so that they add up."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding

STRIKES = 3


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    for each in evidence.optimizers:
        if each.uncleared >= STRIKES and each.uncleared >= 0.8 * (each.steps - 1):
            yield finding(
                "missing-zero-grad",
                "established",
                f"gradients are not cleared between steps: {each.name} steps{at(each.stepped)} "
                "with "
                "the sum of the gradients of all steps so far",
                step=each.first_uncleared,
                where=[each.backward, each.stepped, each.name, each.variable],
                evidence={"steps": each.steps, "steps_with_old_gradients": each.uncleared},
                advice=f"call optimizer.zero_grad() before the backward pass{at(each.backward)}",
            )


RULE = DiagnosisRule(
    "missing-zero-grad",
    judge,
    "An optimizer with a closure (LBFGS); gradients set to None or zero by hand; gradients that "
    "the program assigns (to float32 copies of weights); accumulation over several backward passes "
    "of one step; a GAN that clears before its next own backward pass.",
    explains=("lr-too-high", "exploding-gradient", "non-finite-loss", "non-finite-op"),
)
