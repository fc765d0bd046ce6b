"""The steps are larger than the weights, and the loss does not fall."""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import median

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding

SAMPLES = 3
LARGE = 0.5


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    for optimizer in evidence.optimizers:
        ratios = relative_updates(evidence, optimizer.name)
        large = [(step, ratio) for step, ratio in ratios if ratio > LARGE]
        if len(large) < SAMPLES or len(large) < 0.3 * len(ratios) or not fails(evidence):
            continue
        rate = max(optimizer.rates, default=0.0)
        worst = max(ratio for _, ratio in large)
        yield finding(
            "lr-too-high",
            "supported",
            f"a step of {optimizer.name} (rate {rate:g}) changes the weights by up to {worst:.3g} "
            "times their own size, and the loss does not fall",
            step=large[0][0],
            where=[optimizer.created, optimizer.name, optimizer.variable, optimizer.kind],
            evidence={
                "rate": rate,
                "largest_relative_update": worst,
                "steps_measured": len(ratios),
                "first_loss": evidence.losses[0],
                "last_loss": evidence.losses[-1],
            },
            advice=f"lower the rate{at(optimizer.created)}, at first to {rate / 100:g}",
        )
        return


def relative_updates(evidence: TrainingEvidence, optimizer: str) -> list[tuple[int, float]]:
    """For each step measured: the size of the update over the size of the weights, taken over all
    matrices of the optimizer that were not zero. Steps from the first loss that is not finite on
    are left out: NaN has other causes, too."""
    end = evidence.steps if evidence.first_bad_loss is None else evidence.first_bad_loss
    sums: dict[int, list[float]] = {}
    for each in evidence.parameters:
        if each.optimizer != optimizer or len(each.shape) < 2 or each.is_zero_at_start:
            continue
        for sample in each.samples:
            if sample.step >= end or not sample.is_planned or not math.isfinite(sample.update):
                continue
            entry = sums.setdefault(sample.step, [0.0, 0.0])
            entry[0] += sample.update**2
            entry[1] += sample.weight**2
    found = []
    for step, (update, weight) in sorted(sums.items()):
        if weight > 0:
            found.append((step, math.sqrt(update / weight)))
    return found


def fails(evidence: TrainingEvidence) -> bool:
    """Whether the loss is not finite, or at the end higher than at the start."""
    losses = evidence.losses
    if len(losses) < 8:
        return any(not math.isfinite(loss) for loss in losses)
    if evidence.first_bad_loss is not None:
        return True
    start, end = losses[0], median(losses[-max(4, len(losses) // 4) :])
    return end > 0.98 * start


RULE = DiagnosisRule(
    "lr-too-high",
    judge,
    "A loss that falls; weights that start at zero; fewer than 3 such steps; a GAN's losses, which "
    "do not rise with steps of usual size.",
    explains=("exploding-gradient", "non-finite-loss", "dead-relu"),
)
