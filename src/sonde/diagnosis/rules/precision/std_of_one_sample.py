"""The standard deviation of one value is NaN."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    event = evidence.first("std-of-one-sample") or evidence.first("singular-one-sample")
    if event is None or evidence.first_bad_loss is None:
        return
    yield finding(
        "std-of-one-sample",
        "established",
        f"{event.subject}{at(event.source)} is taken over one value, which is NaN with Bessel's "
        "correction",
        step=event.step,
        where=[event.source, event.subject],
        evidence=dict(event.numbers),
        advice=f"use correction=0 (unbiased=False){at(event.source)}, or drop the last batch of "
        "one",
    )


RULE = DiagnosisRule(
    "std-of-one-sample",
    judge,
    "A loss that stays finite; inputs that are NaN already.",
    explains=("non-finite-loss", "non-finite-op", "exploding-gradient", "lr-too-high"),
)
