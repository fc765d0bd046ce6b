"""Weights start at zero and get no gradient, so that they stay there."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnose.evidence import TrainingEvidence
from sonde.diagnose.rule import DiagnosisRule, at, finding

STRIKES = 3


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    stuck = [
        each
        for each in evidence.parameters
        if each.is_zero_at_start
        and each.is_zero_now
        and each.requires_grad
        and each.optimizer is not None
        and len(each.samples) >= STRIKES
        and all(sample.gradient == 0 for sample in each.samples)
        and any(sample.rate > 0 for sample in each.samples)
    ]
    if not stuck:
        return
    names = [each.name for each in stuck]
    written = next(
        (each for each in evidence.named("init") if each.subject in ("zeros_", "constant_")), None
    )
    line = None if written is None else written.source
    yield finding(
        "zero-init",
        "established",
        f"{len(stuck)} weights ({', '.join(names[:3])}) start at zero and their gradient is "
        "exactly "
        "zero in every step: no signal passes them",
        step=0,
        where=[line, *names[:4], None if written is None else written.subject],
        evidence={"weights": len(stuck), "steps_measured": len(stuck[0].samples)},
        advice="initialise the weights with random values (only biases, and the last layer of a "
        f"residual branch, may be zero){at(line)}",
    )


RULE = DiagnosisRule(
    "zero-init",
    judge,
    "Zero weights that have a gradient: the last layer of a residual branch, LoRA's second matrix; "
    "frozen weights; a rate of zero.",
    explains=("dead-relu", "lr-too-low", "vanishing-gradient", "labels-misaligned"),
)
