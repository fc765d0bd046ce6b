"""An op makes NaN or infinities of finite inputs, and the loss takes them over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from sonde.core.finding import EvidenceStatus, Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    event = evidence.first("op-not-finite")
    if event is None:
        return
    loss = evidence.losses[event.step] if event.step < len(evidence.losses) else None
    yield finding(
        "non-finite-op",
        cast(EvidenceStatus, event.numbers["status"]),
        f"{event.subject}{at(event.source)} makes the loss NaN or infinite: "
        f"{event.numbers['text']}",
        step=event.step,
        where=[event.source, event.subject],
        evidence={"op": event.subject, "cause": event.numbers["cause"], "loss": loss},
        advice=str(event.numbers["advice"] or "")
        or f"keep the inputs of {event.subject}{at(event.source)} where it is defined",
        detail=str(event.numbers["cause"] or ""),
    )


RULE = DiagnosisRule(
    "non-finite-op",
    judge,
    "NaN and infinities that a later op removes, such as those of a mask before softmax; weights "
    "that were NaN before; compiled modules; a loss function whose inputs autograd does not keep.",
    explains=("non-finite-loss",),
)
