"""The target of a language model equals its input, so that it only learns to copy."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding

STRIKES = 3


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    event = evidence.first("target-is-input")
    if event is None or event.count < STRIKES or evidence.first("target-is-shifted") is not None:
        return
    is_causal = evidence.first("is-causal") is not None
    yield finding(
        "target-not-shifted",
        "established" if is_causal else "hypothesis",
        f"the target of {event.subject}{at(event.source)} equals the input of the model at every "
        "position: it learns to copy, not to predict the next token",
        step=event.step,
        where=[event.source, event.subject],
        evidence={"equal_positions": event.numbers["same"], "is_causal": is_causal},
        advice=f"shift the target by one: logits[:, :-1] against labels[:, 1:]{at(event.source)}",
    )


RULE = DiagnosisRule(
    "target-not-shifted",
    judge,
    "Models whose outputs depend on later positions (autoencoders), where it is a hypothesis; a "
    "decoder that is also given the target shifted by one.",
)
