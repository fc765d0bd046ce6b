"""Weights start at zero and get no gradient, so that they stay there."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.initial_values import initial_finding, is_measured
from sonde.diagnosis.rule import DiagnosisRule

FUNCTIONS = ("zeros_", "constant_", "zero_", "fill_")


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    stuck = [
        each
        for each in evidence.parameters
        if is_measured(each)
        and each.is_zero_at_start
        and each.is_zero_now
        and all(sample.gradient == 0 for sample in each.samples)
        and any(sample.rate > 0 for sample in each.samples)
    ]
    if stuck:
        names = ", ".join(each.name for each in stuck[:3])
        yield initial_finding(
            evidence,
            "zero-init",
            stuck,
            FUNCTIONS,
            f"{len(stuck)} weights ({names}) start at zero and their gradient is exactly zero in "
            "every step: no signal passes them",
            {"steps_measured": len(stuck[0].samples)},
            "initialise the weights with random values (only biases, and the last layer of a "
            "residual branch, may be zero)",
        )


RULE = DiagnosisRule(
    "zero-init",
    judge,
    "Zero weights that have a gradient: the last layer of a residual branch, LoRA's second matrix; "
    "frozen weights; a rate of zero.",
    explains=("dead-relu", "lr-too-low", "vanishing-gradient", "labels-misaligned"),
)
