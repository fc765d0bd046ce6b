"""A parameter that two modules shared was replaced in one of them."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    event = evidence.first("tie-broken")
    if event is None or evidence.steps < 1:
        return
    yield finding(
        "broken-weight-tie",
        "established",
        f"{event.subject} is replaced{at(event.source)}, and no longer shared with the module that "
        "it was tied to",
        step=event.step,
        where=[
            event.source,
            event.subject,
            event.subject.rpartition(".")[2],
            str(event.numbers.get("other") or ""),
        ],
        evidence={"times": event.count, "tied_at": event.numbers["tied"]},
        advice=f"tie the weights again after the replacement{at(event.source)}",
    )


RULE = DiagnosisRule(
    "broken-weight-tie", judge, "Parameters that were never shared; a replacement of all of them."
)
