"""One class has nearly all samples, and the loss does not weigh classes."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, finding

SHARE = 0.95
SAMPLES = 200
STRIKES = 10
"""Batches with other classes in a row in which only the commonest one is predicted."""


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    event = evidence.first("targets")
    if event is None:
        return
    total, most = int(event.numbers["total"] or 0), int(event.numbers["most"] or 0)
    classes = int(event.numbers["classes"] or 0)
    constant = evidence.first("prediction-constant")
    if total < SAMPLES or classes < 2 or most < SHARE * total or most == total:
        return
    batches = 0 if constant is None else int(constant.numbers["batches"] or 0)
    is_constant = batches >= STRIKES and evidence.first_bad_loss is None  # NaN is above nothing.
    status = "supported" if is_constant else "hypothesis"
    yield finding(
        "class-imbalance",
        "supported" if status == "supported" else "hypothesis",
        f"{most / total:.0%} of the targets belong to one of {classes} classes"
        + (", and the model predicts only this class" if status == "supported" else ""),
        step=0,
        where=[event.source, event.subject],
        evidence={"targets": total, "of_one_class": most, "classes": classes},
        advice="weigh the classes in the loss, or sample them evenly (WeightedRandomSampler)",
    )


RULE = DiagnosisRule(
    "class-imbalance",
    judge,
    "Less than 95 %, or fewer than 200 targets; a model that also predicts other classes, or a "
    "loss that becomes NaN, where it is a hypothesis; a loss with weights.",
    explains=("labels-misaligned",),
)
