"""Weights are initialised again after training or loading, which destroys them."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding

SHARE = 0.5
"""The share of loaded elements from which on they are lost; a new head is a smaller one."""


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    for name, what in (("init-after-step", "trained"), ("init-after-load", "loaded")):
        events = [each for each in evidence.named(name) if not each.numbers.get("restarts")]
        if not events or max(float(each.numbers.get("share") or 1) for each in events) < SHARE:
            continue
        event = events[0]
        function = event.subject.partition(" ")[0]
        yield finding(
            "repeated-init",
            "established",
            f"weights that were {what} are initialised again{at(event.source)} by {function}",
            step=event.step,
            where=[event.source, function],
            evidence={"times": sum(each.count for each in events)},
            advice=f"initialise once, before weights are {what}: remove the call{at(event.source)}",
        )
        return


RULE = DiagnosisRule(
    "repeated-init",
    judge,
    "Initialisation before the first step and before weights are loaded, however often; weights "
    "that a new optimizer trains from then on (folds); less than half of what was loaded, such "
    "as a head.",
)
