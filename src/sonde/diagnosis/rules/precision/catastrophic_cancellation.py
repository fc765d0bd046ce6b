"""A difference of large products, such as E[x^2] - E[x]^2, loses all its digits."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    event = evidence.first("cancellation")
    if event is None:
        return
    numbers = event.numbers
    yield finding(
        "catastrophic-cancellation",
        "established",
        f"a difference of products{at(event.source)} has an error of {numbers['error']:.2g}, while "
        f"its value in float64 is {numbers['exact']:.2g}: the operands are so large that only "
        "their rounding errors are left",
        step=event.step,
        where=[event.source, event.subject],
        evidence=dict(numbers),
        advice="subtract before squaring: x.var(0), ((x - mean) ** 2).mean(0), ((x[:, None] - y) "
        f"** 2).sum(-1); or move the data to the origin first{at(event.source)}",
    )


RULE = DiagnosisRule(
    "catastrophic-cancellation",
    judge,
    "Differences without products; results of more than 64 units in the last place of the "
    "operands, or with an error of less than half their value in float64; ops outside of modules.",
    explains=("lr-too-high", "exploding-gradient"),
)
