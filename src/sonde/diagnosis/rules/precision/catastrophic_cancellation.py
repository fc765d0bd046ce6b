"""The variance as E[x^2] - E[x]^2 loses all its digits."""

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
        f"the difference of a mean of squares and the square of a mean{at(event.source)} is "
        f"{numbers['ratio']:.1g} of its operands, at a precision of {numbers['epsilon']:.1g}: only "
        "rounding errors are left",
        step=event.step,
        where=[event.source, event.subject],
        evidence=dict(numbers),
        advice="subtract the mean first: ((x - mean) ** 2).mean(0), or use "
        f"x.var(0){at(event.source)}",
    )


RULE = DiagnosisRule(
    "catastrophic-cancellation",
    judge,
    "Differences of other forms; results of more than 64 units in the last place of the operands.",
    explains=("lr-too-high", "exploding-gradient"),
)
