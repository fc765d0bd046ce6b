"""Dropout by function is active in eval mode."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    event = evidence.first("dropout-in-eval")
    if event is None:
        return
    yield finding(
        "dropout-in-eval",
        "established",
        f"dropout{at(event.source)} drops values although {event.subject} is in eval mode: it is "
        "called with training=True, which is the default",
        step=event.step,
        where=[event.source, event.subject, str(event.numbers["function"])],
        evidence={"p": event.numbers["p"], "calls": event.count},
        advice=f"pass training=self.training{at(event.source)}, or use nn.Dropout",
    )


RULE = DiagnosisRule(
    "dropout-in-eval",
    judge,
    "nn.Dropout modules that the program put into train mode (Monte Carlo dropout).",
)
