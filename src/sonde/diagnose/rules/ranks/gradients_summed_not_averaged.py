"""Gradients of the ranks are summed and not divided by their number."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnose.evidence import Evidence
from sonde.diagnose.rule import Rule, at, finding

STRIKES = 3


def judge(evidence: Evidence) -> Iterator[Finding]:
    event = evidence.first("gradients-summed")
    if event is None or event.count < STRIKES:
        return
    yield finding(
        "gradients-summed-not-averaged",
        "supported",
        f"{event.numbers['tensors']} gradients are summed over the ranks by all_reduce and used "
        f"{at(event.source).strip()} without a division by the number of ranks",
        step=event.step,
        where=[event.source, "all_reduce", "world_size", event.subject],
        evidence=dict(event.numbers),
        advice="divide by dist.get_world_size() after all_reduce, or use ReduceOp.AVG",
    )


RULE = Rule(
    "gradients-summed-not-averaged",
    judge,
    "Gradients that are changed after the all_reduce; a loss divided by the number of ranks.",
)
