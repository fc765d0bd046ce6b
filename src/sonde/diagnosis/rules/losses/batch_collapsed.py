"""The whole batch becomes one sample before the model sees it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding

STRIKES = 3


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    yield from list(islice(_all(evidence), 1))


def _all(evidence: TrainingEvidence) -> Iterator[Finding]:
    for name in ("prediction-expanded", "prediction-of-one"):
        for event in evidence.named(name):
            if event.count < STRIKES:
                continue
            root = evidence.first("root-trained")
            called = None if root is None else root.source
            yield finding(
                "batch-collapsed",
                "established",
                f"{event.subject}{at(event.source)} compares one prediction with "
                f"{event.numbers.get('rows') or event.numbers.get('target')} targets: the samples "
                "of "
                f"a batch have become one before the model is called{at(called)}",
                step=event.step,
                where=[
                    called,
                    event.source,
                    None if root is None else root.subject,
                ],
                evidence=dict(event.numbers),
                advice="keep one row for each sample where the batch is put together "
                "(stack and pad, do not join them to one)",
            )
    inside = evidence.first("outputs-equal")
    if inside is not None:
        layer = str(inside.numbers["layer"])
        name = f"{inside.subject} ({layer})" if inside.subject else layer
        yield finding(
            "batch-collapsed",
            "supported",
            f"{name} makes one result of all samples of a batch: the outputs of all "
            f"{inside.numbers['rows']} are equal, and change with each of them",
            step=inside.step,
            where=[inside.source, inside.subject, layer],
            evidence=dict(inside.numbers),
            advice=f"compute over the features of each sample in {name}, not over dimension 0",
        )


RULE = DiagnosisRule(
    "batch-collapsed",
    judge,
    "A prediction of its own for each target; targets that are one number; a prediction that is a "
    "parameter; equal outputs that do not depend on the other samples.",
    explains=("loss-broadcast", "lr-too-low", "labels-misaligned"),
)
