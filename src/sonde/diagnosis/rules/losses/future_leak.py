"""A model that predicts the next token sees the tokens after it."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    event, shifted = evidence.first("future-seen"), evidence.first("target-is-shifted")
    if event is None or shifted is None:
        return
    name = event.subject
    change = f"give the attention in {name or 'the model'} a causal mask (is_causal=True, or a "
    change += "mask that hides later positions)"
    if str(event.numbers.get("layer", "")).startswith("Conv"):
        change = f"pad the input of {name} on the left only, by dilation * (kernel_size - 1)"
    yield finding(
        "future-leak",
        "established",
        f"the target{at(shifted.source)} is the input shifted by one, but a change of the last "
        "token "
        f"changes the outputs of earlier positions: {name or 'the model'} sees the future",
        step=event.step,
        where=[
            event.source,
            name,
            str(event.numbers.get("op") or ""),
            shifted.source,
            shifted.subject,
        ],
        evidence={
            "relative_change": event.numbers["moved"],
            "positions": event.numbers["positions"],
        },
        advice=change,
        detail="causal-mask-missing",
    )


RULE = DiagnosisRule(
    "future-leak",
    judge,
    "Targets that are not the next token (masked language models, tagging).",
)
