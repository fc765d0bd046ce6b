"""Samples of the evaluation are also trained on."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding

SHARE = 0.02
MOST = 0.95
ROWS = 5


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    for event in evidence.named("evaluated"):
        rows, shared = int(event.numbers["rows"] or 0), int(event.numbers["shared"] or 0)
        if shared < ROWS or not SHARE * rows <= shared <= MOST * rows:
            continue
        if shared >= MOST * int(event.numbers["trained"] or 0):
            continue
        split = evidence.first("data-split")
        parts = [] if split is not None else evidence.named("subset-made")
        yield finding(
            "train-val-overlap",
            "established",
            f"{shared} of the {rows} samples evaluated{at(event.source)} are also trained on",
            step=event.step,
            where=[
                event.source,
                *(() if split is None else (split.source, split.subject)),
                *(each.source for each in parts[:2]),
            ],
            evidence=dict(event.numbers),
            advice="split the data once, without overlap, before training and evaluation"
            + (f": choose the indexes of both parts{at(parts[0].source)} together" if parts else "")
            if split is None
            else f"remove repeated samples before {split.subject}(){at(split.source)}",
        )
        return


RULE = DiagnosisRule(
    "train-val-overlap",
    judge,
    "An evaluation of training data (more than 95 % shared, or nearly all that is trained on); "
    "samples that are trained on only after they were evaluated, or by another optimizer before "
    "(folds); fewer than 5 samples; short rows of integers, which are equal by chance.",
)
