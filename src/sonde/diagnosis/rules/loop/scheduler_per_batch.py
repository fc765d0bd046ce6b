"""A scheduler made for epochs is stepped in every batch, so that the rate falls to nothing."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding

BY_EPOCH = ("StepLR", "MultiStepLR", "ExponentialLR")
FALLEN = 1e-3
CALLS = 20


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    for each in evidence.schedulers:
        if each.calls < CALLS or each.calls_per_step < 0.8 * each.calls or not each.rates:
            continue
        fallen = sum(rate < FALLEN * each.first_rate for rate in each.rates)
        period = each.options.get("T_max")
        cycles = each.calls / period if isinstance(period, int) and period > 0 else 0.0
        wraps = each.kind == "CosineAnnealingLR" and cycles >= 4
        if not wraps and (each.kind not in BY_EPOCH or fallen < 0.3 * each.calls):
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
                (n for n, rate in enumerate(each.rates) if rate < FALLEN * each.first_rate), 0
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


RULE = DiagnosisRule(
    "scheduler-per-batch",
    judge,
    "Schedulers made for steps (warm-up, OneCycleLR, restarts); a rate that is below a thousandth "
    "of its start in less than a third of the steps; steps that a GradScaler skipped.",
    explains=("lr-too-low",),
)
