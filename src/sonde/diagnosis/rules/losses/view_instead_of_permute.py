"""A view reorders dimensions as if it transposed them."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    mixed = evidence.first("samples-mixed")
    for name in ("view-swaps-batch", "view-splits-heads"):
        event = evidence.first(name)
        if event is None or (name == "view-swaps-batch" and mixed is None):
            continue
        numbers = event.numbers
        yield finding(
            "view-instead-of-permute",
            "established",
            f"view{at(event.source)} turns the shape {numbers['before']} into {numbers['after']}, "
            "which mixes elements instead of exchanging dimensions"
            + (
                ""
                if mixed is None
                else f": a change of one sample changes the outputs of {mixed.numbers['rows']} "
                "others"
            ),
            step=event.step,
            where=[event.source, event.subject],
            evidence={**numbers, **({} if mixed is None else mixed.numbers)},
            advice=f"use permute() or transpose() in place of view(){at(event.source)}",
        )
        return


RULE = DiagnosisRule(
    "view-instead-of-permute",
    judge,
    "Dimensions of equal size; an exchange of batch and time that does not mix samples.",
    explains=("labels-misaligned",),
)
