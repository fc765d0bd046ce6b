"""Padding counts in the loss."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding

STRIKES = 3


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    event = evidence.first("padding-in-loss")
    if event is None or event.count < STRIKES:
        return
    numbers = event.numbers
    yield finding(
        "padding-not-masked",
        "established",
        f"{numbers['share']:.0%} of the targets of the loss{at(event.source)} are padding "
        f"({numbers['pad']}), and count like tokens",
        step=event.step,
        where=[event.source, event.subject, str(numbers["function"])],
        evidence={"share": numbers["share"], "pad": numbers["pad"]},
        advice=f"pass ignore_index={numbers['pad']}{at(event.source)}",
    )


RULE = DiagnosisRule(
    "padding-not-masked",
    judge,
    "Inputs whose padding is unknown: no padding_idx, and no value that only fills the ends of "
    "rows; less than a tenth of padding; a loss with this ignore_index; targets that differ there; "
    "predictions of padding that get no gradient, since a mask or a selection after the loss "
    "removes them.",
)
