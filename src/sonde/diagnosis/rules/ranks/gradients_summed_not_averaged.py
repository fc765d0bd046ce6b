"""Gradients of the ranks are summed and not divided by their number."""

from __future__ import annotations

import math
from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import LossGraph, TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding
from sonde.diagnosis.rules.loop.sum_reduction_lr import SCALE_FREE

STRIKES = 3
MEANS = (
    *("NllLoss", "NllLoss2D", "MseLoss", "L1Loss", "SmoothL1Loss", "HuberLoss", "KlDiv"),
    *("BinaryCrossEntropy", "BinaryCrossEntropyWithLogits", "SoftMarginLoss"),
)
MEAN = 1
"""The number that autograd keeps for ``reduction='mean'``."""


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    event = evidence.first("gradients-summed")
    if event is None or event.count < STRIKES or not evidence.graphs:
        return
    ranks = int(event.numbers["of_ranks"] or 1)
    if any(_divides(graph, ranks) for graph in evidence.graphs):
        return
    optimizer = evidence.optimizer(event.subject)
    is_whole = event.numbers["tensors"] == event.numbers["of"]
    is_mean = all(_is_mean(graph, 0) for graph in evidence.graphs)
    depends = optimizer is not None and not optimizer.kind.startswith(SCALE_FREE)
    called = evidence.first("all_reduce")
    yield finding(
        "gradients-summed-not-averaged",
        "supported" if is_whole and is_mean and depends else "hypothesis",
        f"{event.numbers['tensors']} gradients are summed over {ranks} ranks by all_reduce and "
        f"used{at(event.source)} without a division by the number of ranks",
        step=event.step,
        where=[None if called is None else called.source, event.source, event.subject],
        evidence=dict(event.numbers),
        advice="divide by dist.get_world_size() after all_reduce, or use ReduceOp.AVG",
    )


def _is_mean(graph: LossGraph, index: int) -> bool:
    """Whether a loss is a mean, or a sum of means, that nothing scales."""
    node = graph.nodes[index]
    if node.name == "Add":
        return bool(node.inputs) and all(_is_mean(graph, each) for each in node.inputs)
    return node.name == "Mean" or (node.name in MEANS and node.saved.get("reduction") == MEAN)


def _divides(graph: LossGraph, ranks: int) -> bool:
    """Whether scalars of the graph are divided by the number of ranks."""
    for node in graph.nodes:
        other = node.saved.get("other")
        if node.shape != () or not isinstance(other, float) or other <= 0:
            continue
        divisor = other if node.name == "Div" else 1 / other if node.name == "Mul" else 0.0
        if math.isclose(divisor, ranks, rel_tol=1e-6):
            return True
    return False


RULE = DiagnosisRule(
    "gradients-summed-not-averaged",
    judge,
    "Gradients that are changed before or after the all_reduce; a loss divided by the number of "
    "ranks. A hypothesis if the loss is no plain mean (it may be divided by the number of tokens "
    "of all ranks), if only a part of the gradients is summed (parallel "
    "layers), and with optimizers whose steps do not depend on the scale of gradients (Adam).",
)
