"""A mean is taken over nothing."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding, op_of


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    event = evidence.first("singular-empty")
    if event is None or evidence.first_bad_loss is None:
        return
    targets = event.numbers.get("targets")
    op = "cross_entropy" if event.subject.startswith("Nll") else op_of(event.subject)
    yield finding(
        "empty-reduction",
        "established",
        f"{op}{at(event.source)} is a mean over no elements"
        + (f": all {targets} targets are ignored" if targets else "")
        + ", which is NaN",
        step=event.step,
        where=[event.source, op_of(event.subject)],
        evidence=dict(event.numbers),
        advice=f"skip the term when nothing is selected{at(event.source)}, or divide a sum by "
        "count.clamp(min=1)",
    )


RULE = DiagnosisRule(
    "empty-reduction",
    judge,
    "A loss that stays finite.",
    explains=("non-finite-loss", "non-finite-op", "exploding-gradient", "lr-too-high"),
)
