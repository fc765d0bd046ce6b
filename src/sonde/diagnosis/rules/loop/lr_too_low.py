"""The steps are so small that the weights do not change noticeably."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding
from sonde.diagnosis.rules.loop.lr_too_high import relative_updates

SMALL = 1e-6
STEPS = 20


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    losses = evidence.losses
    if evidence.steps < STEPS or evidence.first_bad_loss is not None:
        return
    for optimizer in evidence.optimizers:
        ratios = relative_updates(evidence, optimizer.name)
        rate = max(optimizer.rates, default=0.0)
        gradients = [
            sample.gradient
            for each in evidence.parameters
            if each.optimizer == optimizer.name
            for sample in each.samples
            if sample.gradient
        ]
        if len(ratios) < 4 or not 0 < rate < 1e-5 or not gradients:
            continue
        if any(ratio > SMALL for _, ratio in ratios):
            continue
        half = len(losses) // 2
        start, end = median(losses[:half]), median(losses[half:])
        if abs(start - end) > 0.1 * abs(start):
            continue
        scheduler = next(
            (each for each in evidence.schedulers if each.optimizer == optimizer.name), None
        )
        yield finding(
            "lr-too-low",
            "supported",
            f"with a rate of {rate:g} a step of {optimizer.name} changes the weights by at most "
            f"{max(ratio for _, ratio in ratios):.1g} of their size; the loss stays at {end:.4g}",
            step=0,
            where=[
                optimizer.created,
                optimizer.name,
                optimizer.variable,
                optimizer.kind,
                *(() if scheduler is None else (scheduler.stepped, scheduler.kind)),
            ],
            evidence={
                "rate": rate,
                "largest_relative_update": max(ratio for _, ratio in ratios),
                "gradient_norm": max(gradients),
                "first_loss": start,
                "last_loss": end,
            },
            advice=f"raise the rate{at(optimizer.created)}"
            + (
                ""
                if scheduler is None
                else f", or the factor of {scheduler.kind}{at(scheduler.stepped)}"
            )
            + "; updates of 1e-3 of the weights are usual",
        )
        return


RULE = DiagnosisRule(
    "lr-too-low",
    judge,
    "A rate of zero or one that rises later (warm-up): the highest rate counts; no gradient; a "
    "loss "
    "that changes; fewer than 20 steps.",
)
