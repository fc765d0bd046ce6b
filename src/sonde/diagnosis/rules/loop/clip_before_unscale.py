"""Gradients are clipped while they are still multiplied by the loss scale."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding

STRIKES = 3


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    for event in evidence.named("clip-before-unscale"):
        if event.count < STRIKES:
            continue
        numbers = event.numbers
        yield finding(
            "clip-before-unscale",
            "established",
            f"gradients are clipped{at(event.source)} before scaler.unscale_(): their norm is "
            f"{numbers['scale']:g} times too large, so that the limit cuts almost everything",
            step=event.step,
            where=[event.source, event.subject],
            evidence=dict(numbers),
            advice=f"call scaler.unscale_(optimizer) before the clipping{at(event.source)}",
        )
        return


RULE = DiagnosisRule(
    "clip-before-unscale",
    judge,
    "A scaler that is switched off; unscale_() called before; fewer than 3 times.",
    explains=("lr-too-low", "half-gradient-underflow"),
)
