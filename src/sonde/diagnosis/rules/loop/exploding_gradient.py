"""The gradient grows from step to step until values are not finite."""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import median

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding

LARGE = 1e4
GROWTH = 100.0


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    if evidence.first_bad_loss is None:
        return
    norms: dict[int, float] = {}
    for each in evidence.parameters:
        for sample in each.samples:
            if sample.gradient is not None:
                norms[sample.step] = norms.get(sample.step, 0.0) + sample.gradient**2
    early = [
        math.sqrt(square)
        for step, square in sorted(norms.items())
        if step <= evidence.first_bad_loss and math.isfinite(square)
    ]
    if not early or (max(early) < LARGE and max(early) < GROWTH * median(early)):
        return
    steps = [each.stepped for each in evidence.optimizers if each.steps]
    yield finding(
        "exploding-gradient",
        "supported",
        f"the norm of the gradients reaches {max(early):.3g} before the loss becomes infinite or "
        f"NaN in step {evidence.number(evidence.first_bad_loss)}",
        step=evidence.first_bad_loss,
        where=[*steps[:1], *(each.backward for each in evidence.optimizers[:1])],
        evidence={"first_norm": early[0], "largest_norm": max(early)},
        advice="clip the gradients with clip_grad_norm_ before the step, or lower the rate"
        f"{at(steps[0] if steps else None)}",
    )


RULE = DiagnosisRule(
    "exploding-gradient",
    judge,
    "A loss that stays finite; norms below 1e4 and below 100 times their median.",
    explains=(
        "non-finite-loss",
        "non-finite-op",
    ),
)
