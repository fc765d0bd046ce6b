"""All rows of a weight start equal, so that all units of the layer stay equal."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.initial_values import STRIKES, initial_finding, is_measured
from sonde.diagnosis.rule import DiagnosisRule

FUNCTIONS = ("constant_", "ones_", "fill_")


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    same = [
        each
        for each in evidence.parameters
        if is_measured(each)
        and each.has_equal_rows_at_start
        and each.has_equal_rows_now
        and sum(bool(sample.gradient) and sample.update > 0 for sample in each.samples) >= STRIKES
    ]
    if same:
        names = ", ".join(each.name for each in same[:3])
        yield initial_finding(
            evidence,
            "constant-init",
            same,
            FUNCTIONS,
            f"all rows of {names} start equal and are still equal after "
            f"{same[0].samples[-1].step + 1} steps: the layer computes one unit many times",
            {"rows": same[0].shape[0]},
            "initialise the weights with random values",
        )


RULE = DiagnosisRule(
    "constant-init",
    judge,
    "Weights of one row; rows that become different; frozen weights; weights that are all zero.",
    explains=("lr-too-low", "labels-misaligned"),
)
