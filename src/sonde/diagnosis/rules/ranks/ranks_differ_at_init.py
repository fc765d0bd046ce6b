"""The ranks start with different weights."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    event = evidence.first("ranks-differ")
    if event is None:
        return
    numbers = event.numbers
    if int(numbers["at"] or 0) != 0 or numbers.get("equal_later"):
        return
    made = next((each.created for each in evidence.optimizers if each.created), None)
    seed = evidence.first("seed-differs")
    written = [each.source for each in evidence.named("init") if each.source is not None]
    yield finding(
        "ranks-differ-at-init",
        "established",
        f"{numbers['tensors']} of {numbers['of']} weights of rank {numbers['rank']} differ from "
        "those of rank 0 before the first step, and are never made equal"
        + ("" if seed is None else f": the seed{at(seed.source)} differs"),
        step=0,
        where=[
            None if seed is None else seed.source,
            *written[-1:],
            made,
            None if seed is None else seed.subject,
        ],
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
