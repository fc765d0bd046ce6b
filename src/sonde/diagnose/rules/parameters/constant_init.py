"""All rows of a weight start equal, so that all units of the layer stay equal."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnose.evidence import TrainingEvidence
from sonde.diagnose.rule import DiagnosisRule, at, finding

STRIKES = 3


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    same = [
        each
        for each in evidence.parameters
        if each.has_equal_rows_at_start
        and each.has_equal_rows_now
        and each.requires_grad
        and each.optimizer is not None
        and len(each.samples) >= STRIKES
        and sum(bool(sample.gradient) and sample.update > 0 for sample in each.samples) >= STRIKES
    ]
    if not same:
        return
    names = [each.name for each in same]
    written = next(
        (each for each in evidence.named("init") if each.subject in ("constant_", "ones_")), None
    )
    line = None if written is None else written.source
    yield finding(
        "constant-init",
        "established",
        f"all rows of {', '.join(names[:3])} start equal and are still equal after "
        f"{same[0].samples[-1].step + 1} steps: the layer computes one unit many times",
        step=0,
        where=[line, *names[:4], None if written is None else written.subject],
        evidence={"weights": len(same), "rows": same[0].shape[0]},
        advice=f"initialise the weights with random values{at(line)}",
    )


RULE = DiagnosisRule(
    "constant-init",
    judge,
    "Weights of one row; rows that become different; frozen weights; weights that are all zero.",
    explains=("lr-too-low", "labels-misaligned"),
)
