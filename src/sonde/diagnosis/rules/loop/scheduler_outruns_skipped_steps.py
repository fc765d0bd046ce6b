"""A GradScaler skips steps while the scheduler goes on, so that the rate decays without updates."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding

SHARE = 0.1
STRIKES = 4


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    for each in evidence.schedulers:
        optimizer = evidence.optimizer(each.optimizer)
        skipped = each.skipped_steps
        if optimizer is None or skipped < STRIKES or skipped < SHARE * each.calls:
            continue
        rates = each.rates[: skipped + 1]
        if not rates or min(rates) > 0.9 * max(each.first_rate, *rates):
            continue
        event = evidence.first("scaler-skipped")
        yield finding(
            "scheduler-outruns-skipped-steps",
            "established",
            f"the GradScaler skipped {optimizer.skipped} steps of {optimizer.name}, and "
            f"{each.kind} "
            f"was stepped{at(each.stepped)} all the same: the rate fell from {each.first_rate:g} "
            f"to {each.rates[min(skipped, len(each.rates)) - 1]:.2g} without an update",
            step=0 if event is None else event.step,
            where=[
                each.stepped,
                None if event is None else event.source,
                each.kind,
                each.variable,
                None if event is None else event.subject,
            ],
            evidence={
                "skipped_steps": optimizer.skipped,
                "scheduler_steps_without_update": skipped,
                "first_rate": each.first_rate,
                "last_rate": each.rates[-1],
                "scale": None if event is None else event.numbers.get("scale"),
            },
            advice="step the scheduler only if the optimizer stepped (compare scaler.get_scale() "
            f"before and after update()){at(each.stepped)}, and lower init_scale",
        )
        return


RULE = DiagnosisRule(
    "scheduler-outruns-skipped-steps",
    judge,
    "Fewer than 4 skipped steps, or less than a tenth: a GradScaler finds its scale that way; a "
    "rate that did not fall meanwhile.",
    explains=("scheduler-per-batch", "lr-too-low"),
)
