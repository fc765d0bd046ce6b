"""The loss is a sum over the batch, and the rate was chosen for a mean."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import EvidenceEvent, TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding
from sonde.diagnosis.rules.loop.lr_too_high import fails, relative_updates

LARGE = 0.05
LONG = 0.5
"""A relative step that is too long even if the loss falls."""
SAMPLES = 2
SCALE_FREE = ("Adam", "NAdam", "RAdam", "RMS", "Adagrad", "Adafactor", "Lion", "SparseAdam")
"""Optimizers whose steps do not depend on the scale of the loss, by the start of their names."""


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    summed = evidence.first("loss-summed")
    if summed is None or summed.count < 3:
        summed = _summed_by_hand(evidence) if fails(evidence) else None
    if summed is None:
        return
    samples = int(summed.numbers.get("samples") or 0)
    for optimizer in evidence.optimizers:
        if optimizer.kind.startswith(SCALE_FREE):
            continue
        ratios = relative_updates(evidence, optimizer.name)
        large = [(step, ratio) for step, ratio in ratios if ratio > LARGE]
        if samples < 8 or len(large) < SAMPLES:
            continue
        rate = max(optimizer.rates, default=0.0)
        worst = max(ratio for _, ratio in large)
        yield finding(
            "sum-reduction-lr",
            "supported" if fails(evidence) or worst > LONG else "hypothesis",
            f"{summed.subject}{at(summed.source)} sums over {samples} samples, so that steps of "
            f"{optimizer.name} (rate {rate:g}) are {samples} times as long as with a mean",
            step=large[0][0],
            where=[summed.source, optimizer.created, summed.subject, optimizer.variable],
            evidence={"samples": samples, "rate": rate, "largest_relative_update": worst},
            advice=f"use reduction='mean'{at(summed.source)}, or divide the rate by {samples}",
        )
        return


def _summed_by_hand(evidence: TrainingEvidence) -> EvidenceEvent | None:
    """The ``sum()`` over a batch that is the loss or a term of it, as an event."""
    for graph in evidence.graphs[:1]:
        waiting = [0]
        for index in waiting:
            node = graph.nodes[index]
            if node.name in ("Add", "Neg"):
                waiting += node.inputs
            elif node.name == "Sum" and node.shape == () and node.inputs:
                shape = graph.nodes[node.inputs[0]].shape or ()
                if shape:
                    return EvidenceEvent(
                        "loss-summed", graph.step, node.source, "sum", {"samples": shape[0]}
                    )
    return None


RULE = DiagnosisRule(
    "sum-reduction-lr",
    judge,
    "Optimizers whose steps do not depend on the scale of the loss (Adam); steps of usual size; "
    "sums over fewer than 8 samples; a sum() that the program wrote itself, while the loss falls. "
    "Steps of less than half the weights are a hypothesis while the loss falls.",
    explains=("lr-too-high", "exploding-gradient", "dead-relu", "non-finite-loss", "non-finite-op"),
)
