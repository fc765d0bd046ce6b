"""A mask is applied twice, which changes what it hides."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    twice = evidence.first("softmax-twice")
    if twice is not None:
        yield finding(
            "double-mask",
            "established",
            "the weights of a softmax are masked and normalised by a second softmax"
            f"{at(twice.source)}: weights of zero become positive again, so that hidden positions "
            "count",
            step=twice.step,
            where=[twice.source, str(twice.numbers["op"]), twice.subject],
            evidence=dict(twice.numbers),
            advice="mask the scores once, before the only softmax; remove the one"
            f"{at(twice.source)}",
        )
        return
    added = evidence.first("masks-added")
    row = evidence.first("singular-row")
    if added is None:
        return
    is_bad = row is not None or evidence.first_bad_loss is not None
    yield finding(
        "double-mask",
        "established" if is_bad else "hypothesis",
        f"two masks of the lowest number are added{at(added.source)}: the sum is -inf in "
        f"{added.numbers['elements']} elements"
        + (", and rows in which all are hidden become NaN" if is_bad else ""),
        step=added.step,
        where=[added.source, added.subject, *([] if row is None else [row.source])],
        evidence=dict(added.numbers),
        advice=f"combine the masks as truth values, and fill once{at(added.source)}",
    )


RULE = DiagnosisRule(
    "double-mask",
    judge,
    "Masks that are combined before they are applied; a mask that is multiplied after softmax "
    "without a second one. Sums of masks that leave the loss finite are a hypothesis.",
    explains=(
        *("fully-masked-attention-row", "non-finite-loss", "non-finite-op", "exploding-gradient"),
        *("lr-too-high", "future-leak"),
    ),
)
