"""Dropout scales float16 values beyond the largest one."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    event = evidence.first("half-overflow-dropout")
    if event is None:
        return
    numbers = event.numbers
    yield finding(
        "half-overflow-dropout",
        "established",
        f"dropout{at(event.source)} divides float16 values of up to {numbers['largest']:g} by 1-p, "
        f"which gives {numbers['scaled']:g}, above the limit of {numbers['limit']:g}",
        step=event.step,
        where=[event.source, str(numbers["function"]), event.subject],
        evidence={name: numbers[name] for name in ("largest", "scaled", "limit")},
        advice=f"scale the values down before dropout, or cast to float32 before it"
        f"{at(event.source)}",
    )


RULE = DiagnosisRule(
    "half-overflow-dropout",
    judge,
    "Values that stay below the limit after the scaling; bfloat16 and float32.",
    explains=("non-finite-loss", "non-finite-op", "exploding-gradient", "lr-too-high"),
)
