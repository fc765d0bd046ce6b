"""A scheduler made for epochs is stepped in every batch, so that the rate falls to nothing."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import SchedulerEvidence, TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding

BY_EPOCH = ("StepLR", "MultiStepLR", "ExponentialLR", "ReduceLROnPlateau")
BY_FORMULA = ("LambdaLR", "MultiplicativeLR", "PolynomialLR")
"""Schedulers whose unit only their rates show."""
FALLEN = 1e-3
CALLS = 20
CYCLES = 4
EARLY = 1 / 6
"""The part of the training in which a schedule for epochs ends if it is counted in batches."""


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    if sum(each.count for each in evidence.named("input-kept")) > 0.8 * evidence.steps:
        return
    for each in evidence.schedulers:
        if each.calls < CALLS or each.calls_per_step < 0.8 * each.calls or not each.rates:
            continue
        if not _runs_out(evidence, each) and not _is_in_epochs(evidence, each):
            continue
        if each.skipped_steps > 0.2 * each.calls:
            continue
        yield finding(
            "scheduler-per-batch",
            "supported",
            f"{each.kind} is stepped{at(each.stepped)} after every batch: in {each.calls} steps "
            "the "
            f"rate went from {each.first_rate:g} to {min(each.rates):.2g}",
            step=next(
                (n for n, rate in enumerate(each.rates) if rate <= FALLEN * each.first_rate), 0
            ),
            where=[each.stepped, each.kind, each.variable],
            evidence={
                "calls": each.calls,
                "first_rate": each.first_rate,
                "lowest_rate": min(each.rates),
                "last_rate": each.rates[-1],
                **each.options,
            },
            advice=f"move scheduler.step(){at(each.stepped)} out of the loop over batches, to the "
            "end of the epoch, or choose its periods in batches",
        )
        return


def _runs_out(evidence: TrainingEvidence, scheduler: SchedulerEvidence) -> bool:
    """Whether the rate is next to nothing in a third of the steps (of a formula: in half of them),
    or a cosine runs through several periods that are not longer than the training in epochs."""
    limit = FALLEN * scheduler.first_rate * (1 + 1e-6)
    fallen = sum(rate <= limit for rate in scheduler.rates) / scheduler.calls
    period = scheduler.options.get("T_max")
    cycles = scheduler.calls / period if isinstance(period, int) and period > 0 else 0.0
    if scheduler.kind in BY_EPOCH:
        return fallen >= 0.3
    if scheduler.kind in BY_FORMULA:
        return fallen >= 0.5 and not _rises(scheduler.rates)
    epochs = _epochs(evidence)
    is_short = not epochs or not isinstance(period, int) or period <= epochs
    return scheduler.kind == "CosineAnnealingLR" and cycles >= CYCLES and is_short


def _rises(rates: list[float]) -> bool:
    """Whether the last rate is the highest, as in a warm-up."""
    return rates[-1] == max(rates) > rates[0]


def _is_in_epochs(evidence: TrainingEvidence, scheduler: SchedulerEvidence) -> bool:
    """Whether all milestones, or the period, lie in the first part of the training if they are
    counted in batches, and in the training if they are counted in epochs."""
    end = scheduler.options.get("milestones", scheduler.options.get("T_max"))
    if not isinstance(end, int) or scheduler.kind not in ("MultiStepLR", "CosineAnnealingLR"):
        return False
    epochs = _epochs(evidence)
    return 1 < end <= epochs and end <= EARLY * scheduler.calls


def _epochs(evidence: TrainingEvidence) -> int:
    """How often a loader was begun, or an order drawn; 0 if the program does neither."""
    return max((each.count for each in evidence.named("epoch-begun")), default=0)


RULE = DiagnosisRule(
    "scheduler-per-batch",
    judge,
    "Schedulers made for steps (warm-up, OneCycleLR, restarts), and formulas whose rate is highest "
    "at the end; a rate that is above a thousandth of its start in two thirds of the steps, and "
    "milestones beyond the first sixth of the training; full batches, where a step is an epoch; "
    "steps that a GradScaler skipped.",
    explains=("lr-too-low",),
)
