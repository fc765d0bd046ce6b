"""A mask hides the tokens and shows the padding: its sense is inverted."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    event = evidence.first("mask-inverted")
    if event is None:
        return
    yield finding(
        "mask-sense-inverted",
        "established",
        f"in {event.numbers['rows']} rows {event.subject}{at(event.source)} sees the padding and "
        "no token: the mask has the opposite sense",
        step=event.step,
        where=[event.source, event.subject],
        evidence=dict(event.numbers),
        advice=f"invert the mask{at(event.source)}: masked_fill and key_padding_mask hide where "
        "the mask is True, scaled_dot_product_attention shows there",
    )


RULE = DiagnosisRule(
    "mask-sense-inverted",
    judge,
    "Inputs without padding, or whose padding is unknown (no padding_idx, and no value that only "
    "fills the ends of rows); masks that show any token.",
    explains=(
        "fully-masked-attention-row",
        "non-finite-loss",
        "non-finite-op",
        "lr-too-low",
        "labels-misaligned",
    ),
)
