"""Accumulated micro-batches of different sizes weigh the same."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding

STRIKES = 3


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    for event in evidence.named("unequal-micro-batches"):
        if event.count < STRIKES or event.count < 0.2 * evidence.steps:
            continue
        numbers = event.numbers
        yield finding(
            "accumulation-mean-of-means",
            "established",
            f"the loss{at(event.source)} is a mean over {numbers['fewest']} to {numbers['most']} "
            f"targets, and {numbers['parts']} such means are added up with the same weight: short "
            "micro-batches weigh too much",
            step=event.step,
            where=[event.source, event.subject],
            evidence={**numbers, "steps": event.count},
            advice="sum the losses of a step and divide by the number of targets of all its "
            f"micro-batches (reduction='sum'){at(event.source)}",
        )
        return


RULE = DiagnosisRule(
    "accumulation-mean-of-means",
    judge,
    "Micro-batches of equal size, or of sizes that differ by less than 1.5 times or in fewer "
    "than a "
    "fifth of the steps (the last batch of an epoch); weights that follow the sizes; losses of "
    "different lines or numbers of classes, which are terms.",
)
