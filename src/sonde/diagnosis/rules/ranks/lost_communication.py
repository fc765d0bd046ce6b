"""The ranks start equal and drift apart: their gradients or weights do not reach each other."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import EvidenceEvent, TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding

COMPARED = 3


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    event = evidence.first("ranks-differ")
    if event is None:
        return
    numbers = event.numbers
    first, compared = int(numbers["at"] or 0), int(numbers.get("compared") or 0)
    if first == 0 or compared < COMPARED or numbers.get("equal_later"):
        return
    lost, why, advice = _cause(evidence)
    optimizer = next((each for each in evidence.optimizers if each.steps), None)
    stepped = None if optimizer is None else optimizer.stepped
    backward = None if optimizer is None else optimizer.backward
    stands = _standing(numbers)
    yield finding(
        "lost-communication",
        "established",
        f"the ranks start with equal weights, and from step {evidence.number(first)} on "
        f"{numbers['tensors']} of {numbers['of']} weights of rank {numbers['rank']} differ from "
        f"those of rank 0{stands}: {why}",
        step=first,
        where=[
            None if lost is None else lost.source,
            backward,
            stepped,
            None if lost is None else lost.name,
        ],
        evidence={**numbers, "times": 0 if lost is None else lost.count},
        advice=advice,
    )


def _cause(evidence: TrainingEvidence) -> tuple[EvidenceEvent | None, str, str]:
    copy = evidence.first("reduced-copy-unused")
    if copy is not None:
        why = f"all_reduce{at(copy.source)} changes a copy of the gradient, which is not used"
        return copy, why, f"reduce parameter.grad itself{at(copy.source)}, or copy the result back"
    paused = evidence.first("no-sync")
    if paused is not None and paused.count >= 0.9 * evidence.steps:
        why = f"every backward pass runs in no_sync(){at(paused.source)}"
        return paused, why, "leave no_sync() for the last micro-batch of each step"
    return (
        evidence.first("ddp-made"),
        "gradients are not exchanged, or their exchange has no effect",
        "call the model through DistributedDataParallel, or average the gradients with all_reduce "
        "before the step",
    )


def _standing(numbers: dict[str, object] | object) -> str:
    if not isinstance(numbers, dict) or numbers.get("moved") == numbers.get("other_moved"):
        return ""
    still = 0 if not numbers.get("moved") else numbers["rank"]
    return f", and rank {still} keeps its initial weights"


RULE = DiagnosisRule(
    "lost-communication",
    judge,
    "Ranks that differ before the first step (other models, parts of one model); weights that are "
    "made equal again in a later step (averaged every few steps); fewer than 3 compared steps.",
)
