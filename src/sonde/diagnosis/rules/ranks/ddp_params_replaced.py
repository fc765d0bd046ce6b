"""Parameters were replaced after DistributedDataParallel was made."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, finding


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    event = evidence.first("ddp-params-replaced")
    if event is None or event.count < 2:
        return
    names = event.subject.split()
    made = evidence.first("ddp-made")
    yield finding(
        "ddp-params-replaced",
        "established",
        f"{', '.join(names)} were replaced after DDP was made: their gradients are not exchanged",
        step=event.step,
        where=[*names, event.source, None if made is None else made.source],
        evidence={"parameters": len(names), "calls": event.count},
        advice="make the DDP wrapper after the last change of the model",
    )


RULE = DiagnosisRule(
    "ddp-params-replaced",
    judge,
    "Parameters that are frozen; changes before the wrapper is made.",
    explains=("ranks-differ-at-init", "lost-communication"),
)
