"""The ranks start with different weights."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnose.evidence import TrainingEvidence
from sonde.diagnose.rule import DiagnosisRule, finding


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    event = evidence.first("ranks-differ")
    if event is None:
        return
    numbers = event.numbers
    if int(numbers["at"] or 0) != 0:
        return
    made = next((each.created for each in evidence.optimizers if each.created), None)
    yield finding(
        "ranks-differ-at-init",
        "established",
        f"{numbers['tensors']} of {numbers['of']} weights of rank {numbers['rank']} differ from "
        "those of rank 0 before the first step, and are never made equal",
        step=0,
        where=[made],
        evidence=dict(numbers),
        advice="use the same seed on all ranks while the model is made, or broadcast the weights "
        "of "
        "rank 0 (DistributedDataParallel does)",
    )


RULE = DiagnosisRule(
    "ranks-differ-at-init",
    judge,
    "Weights that are equal before the first step; parts of a sharded or parallel model, which "
    "have "
    "other shapes.",
)
