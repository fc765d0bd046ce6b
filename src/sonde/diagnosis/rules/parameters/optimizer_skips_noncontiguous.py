"""An optimizer does not change a parameter that has a gradient."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, finding

STRIKES = 3


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    for each in evidence.parameters:
        if each.optimizer is None or each.is_contiguous or len(each.samples) < STRIKES:
            continue
        skipped = [
            sample
            for sample in each.samples
            if sample.gradient and sample.rate > 0 and sample.update == 0 and sample.lost == 1
        ]
        moved = any(
            sample.update > 0
            for other in evidence.parameters
            if other.optimizer == each.optimizer
            for sample in other.samples
        )
        if len(skipped) < STRIKES or len(skipped) < len(each.samples) or not moved:
            continue
        optimizer = evidence.optimizer(each.optimizer)
        yield finding(
            "optimizer-skips-noncontiguous",
            "established",
            f"{each.optimizer} never changes {each.name}, which is not contiguous and has a "
            "gradient, while it changes other parameters",
            step=skipped[0].step,
            where=[
                each.name,
                each.module,
                each.optimizer,
                None if optimizer is None else optimizer.created,
            ],
            evidence={"gradient": skipped[0].gradient, "steps_measured": len(each.samples)},
            advice=f"make {each.name} contiguous before the optimizer is made, or correct the "
            "optimizer: it writes to a copy",
        )
        return


RULE = DiagnosisRule(
    "optimizer-skips-noncontiguous",
    judge,
    "Parameters without gradient; a rate of zero; an optimizer that changes nothing at all.",
)
