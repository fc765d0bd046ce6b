"""Softmax over a row in which every element is masked is NaN."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding, op_of


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    event = evidence.first("singular-row")
    bad = evidence.first_bad_loss
    if event is None or bad is None or event.step > bad:
        return
    numbers = event.numbers
    yield finding(
        "fully-masked-attention-row",
        "established",
        f"softmax{at(event.source)} gives NaN in {numbers['rows']} of {numbers['of']} rows: every "
        "element of these rows is masked with -inf",
        step=event.step,
        where=[event.source, op_of(event.subject)],
        evidence=dict(numbers),
        advice="leave at least one element of each row unmasked (samples without tokens), or set "
        f"the result of such rows to zero{at(event.source)}",
    )


RULE = DiagnosisRule(
    "fully-masked-attention-row",
    judge,
    "Softmax that is NaN everywhere, because its input was; a loss that stays finite.",
    explains=(
        *("non-finite-loss", "non-finite-op", "exploding-gradient", "lr-too-high"),
        "unsafe-where-branch",
    ),
)
