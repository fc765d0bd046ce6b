"""Labels do not belong to their inputs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import median

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, finding

STEPS = 60


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    event = evidence.first("neighbours")
    if event is None or evidence.steps < STEPS or evidence.first_bad_loss is not None:
        return
    numbers = {name: float(value or 0) for name, value in event.numbers.items()}
    noise = 3 * math.sqrt(numbers["chance"] / (5 * numbers["samples"]))
    if numbers["agreement"] > numbers["chance"] + noise:
        return
    early = median(evidence.losses[STEPS // 2 : STEPS])
    if early < 0.9 * numbers["entropy"]:
        return
    yield finding(
        "labels-misaligned",
        "hypothesis",
        f"near inputs have the same label as often as by chance ({numbers['agreement']:.2f} of "
        f"{numbers['chance']:.2f}), and the loss stays at the entropy of the labels "
        f"({numbers['entropy']:.3g}): labels may not belong to their inputs",
        step=0,
        where=[event.source, event.subject],
        evidence=dict(numbers),
        advice="check that inputs and labels are shuffled, sorted and filtered by the same indexes",
    )


RULE = DiagnosisRule(
    "labels-misaligned",
    judge,
    "Always a hypothesis: inputs may say nothing about the labels. Silent if the loss falls below "
    "the entropy of the labels, or near inputs share labels.",
)
