"""Gradients are cleared between the backward pass and the step, so that the step has none."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import OptimizerEvidence, TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding

STRIKES = 3


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    for each in evidence.optimizers:
        if each.cleared_before >= STRIKES and each.cleared_before >= 0.9 * each.steps:
            yield finding(
                "zero-grad-before-step",
                "established",
                f"the gradients are cleared{at(each.cleared)} after the backward pass"
                f"{at(each.backward)} and before {each.name} steps{at(each.stepped)}: it never has "
                "a gradient",
                step=0,
                where=[each.cleared, each.stepped, each.backward, each.name, each.variable],
                evidence={"steps": each.steps, "steps_without_gradient": each.cleared_before},
                advice=f"move zero_grad(){at(each.cleared)} before the backward pass"
                if each.cleared
                else "look for what sets the gradients to zero or None between these lines, such as"
                " grad.zero_(), and let it do so after the step",
            )
        elif each.steps_of_last >= STRIKES and each.steps_of_last >= 0.9 * each.steps:
            yield _step_outside_loop(each)


def _step_outside_loop(seen: OptimizerEvidence) -> Finding:
    """Most backward passes are followed by no step."""
    return finding(
        "zero-grad-before-step",
        "established",
        f"the gradients of {seen.discarded} backward passes{at(seen.backward)} are cleared"
        f"{at(seen.cleared)} before {seen.name} steps{at(seen.stepped)}: each of its {seen.steps} "
        "steps has the gradient of the last pass alone",
        step=0,
        where=[seen.stepped, seen.cleared, seen.name, seen.variable],
        evidence={"steps": seen.steps, "passes_without_step": seen.discarded},
        advice=f"move step(){at(seen.stepped)} into the loop, after the backward pass; to add "
        f"gradients up, clear them{at(seen.cleared)} once a step",
        detail="step-outside-loop",
    )


RULE = DiagnosisRule(
    "zero-grad-before-step",
    judge,
    "Steps that have a gradient all the same; a GAN that clears before its next own backward pass; "
    "fewer than 3 cleared passes of the same line for each step, as where a step is left out; "
    "gradients that the program assigns before the step (sums of clipped ones).",
    explains=("zero-init", "lr-too-low", "unused-parameters", "dead-relu"),
)
