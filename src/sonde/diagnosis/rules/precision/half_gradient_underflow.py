"""Gradients in float16 are too small and become zero."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding

ZEROS = 0.5
SAMPLES = 3


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    is_half = any(node.dtype == "float16" for graph in evidence.graphs for node in graph.nodes)
    if not is_half or evidence.first("loss-scaled") is not None:
        return
    weak = [
        each
        for each in evidence.parameters
        if len(each.shape) >= 2
        and each.reached
        and len(each.samples) >= SAMPLES
        and median(sample.zeros for sample in each.samples) > ZEROS
    ]
    if not weak:
        return
    names = [each.name for each in weak]
    share = median(sample.zeros for sample in weak[0].samples)
    backward = next((each.backward for each in evidence.optimizers if each.backward), None)
    yield finding(
        "half-gradient-underflow",
        "supported",
        f"{share:.0%} of the gradient of {names[0]} is exactly zero: the backward pass"
        f"{at(backward)} runs in float16 without loss scaling",
        step=weak[0].samples[0].step,
        where=[backward, *names[:4], weak[0].module],
        evidence={"share_of_zeros": share, "parameters": len(weak)},
        advice=f"scale the loss with torch.amp.GradScaler{at(backward)}, or use bfloat16",
    )


RULE = DiagnosisRule(
    "half-gradient-underflow",
    judge,
    "A scaled loss; no float16 in the graph; less than half of zeros (ReLU makes some).",
    explains=("lr-too-low", "vanishing-gradient", "zero-init"),
)
