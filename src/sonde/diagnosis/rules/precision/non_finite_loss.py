"""The loss becomes NaN or infinite, and no other rule says why."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, finding


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    step = evidence.first_bad_loss
    if step is None:
        return
    backward = next((each.backward for each in evidence.optimizers if each.backward), None)
    held = evidence.first("loss-held")
    yield finding(
        "non-finite-loss",
        "established",
        f"the loss is {evidence.losses[step]} in step {evidence.number(step)}",
        step=step,
        where=[backward, None if held is None else held.subject],
        evidence={"loss_before": evidence.losses[step - 1] if step else None},
        advice="sonde run --overflow finds the op in which NaN or infinities begin",
    )


RULE = DiagnosisRule("non-finite-loss", judge, "Losses that stay finite.")
