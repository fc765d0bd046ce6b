"""Padding counts in the loss."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding

STRIKES = 3
CLASSIFYING = ("cross_entropy", "nll_loss")
"""Losses that take an ``ignore_index``."""


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    event = evidence.first("padding-in-loss")
    if event is None or event.count < STRIKES:
        return
    numbers = event.numbers
    compares_classes = numbers["function"] in CLASSIFYING
    yield finding(
        "padding-not-masked",
        "established",
        f"{numbers['share']:.0%} of the targets of the loss{at(event.source)} are padding "
        f"({numbers['pad']}), and count like {'tokens' if compares_classes else 'values'}",
        step=event.step,
        where=[event.source, event.subject, str(numbers["function"])],
        evidence={"share": numbers["share"], "pad": numbers["pad"]},
        advice=f"pass ignore_index={numbers['pad']}{at(event.source)}"
        if compares_classes
        else f"select the positions that are no padding before the mean{at(event.source)}",
    )


RULE = DiagnosisRule(
    "padding-not-masked",
    judge,
    "Inputs whose padding is unknown: no padding_idx, and no value that only fills the ends of "
    "rows; targets that are the input itself; less than a tenth of padding; a loss with this "
    "ignore_index; targets that differ there; predictions of padding that get no gradient, since a "
    "mask or a selection after the loss removes them.",
)
