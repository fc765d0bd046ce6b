"""The steps are larger than the weights, and the loss does not fall."""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import median

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding

LARGE = 0.5
USUAL = 3, 0.3
"""How many of the steps measured are large at least, and which share of them."""
DIVERGED = 2, 0.1
"""The same for a loss that ends far above its start: weights that grow with it make later steps
small beside them."""

THROWN = 2.0, 1.5
"""A first step that throws the weights away: its size beside them, and how far the loss rises in
the steps after it. Weights that have grown by it make all later steps small beside them."""
EARLY = 10


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    for optimizer in evidence.optimizers:
        ratios = relative_updates(evidence, optimizer.name)
        large = [(step, ratio) for step, ratio in ratios if ratio > LARGE]
        samples, share = DIVERGED if diverges(evidence) else USUAL
        is_usual = len(large) >= max(samples, share * len(ratios))
        if not fails(evidence) or not (is_usual or is_thrown(ratios, evidence.losses)):
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


def is_thrown(ratios: list[tuple[int, float]], losses: list[float]) -> bool:
    """Whether a first step is larger than the weights, and the loss rises right after it. A loss
    that becomes infinite has other causes, too: a gradient that grows through time."""
    size, rise = THROWN
    is_large = any(step < EARLY and ratio > size for step, ratio in ratios)
    return (
        is_large
        and all(map(math.isfinite, losses))
        and max(losses[:EARLY], default=0.0) > rise * abs(losses[0])
    )


def fails(evidence: TrainingEvidence) -> bool:
    """Whether the loss is not finite, or at the end higher than at the start."""
    losses = evidence.losses
    if len(losses) < 8:
        return any(not math.isfinite(loss) for loss in losses)
    return evidence.first_bad_loss is not None or _last(losses) > 0.98 * losses[0]


def diverges(evidence: TrainingEvidence) -> bool:
    """Whether the loss ends far above its start."""
    return len(evidence.losses) >= 8 and _last(evidence.losses) > 10 * abs(evidence.losses[0]) > 0


def _last(losses: list[float]) -> float:
    return median(losses[-max(4, len(losses) // 4) :])


RULE = DiagnosisRule(
    "lr-too-high",
    judge,
    "A loss that falls; weights that start at zero; fewer than 3 such steps; a GAN's losses, which "
    "do not rise with steps of usual size.",
    explains=("exploding-gradient", "non-finite-loss", "non-finite-op", "dead-relu"),
)
