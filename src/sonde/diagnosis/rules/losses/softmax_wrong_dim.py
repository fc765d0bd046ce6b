"""Softmax runs over the batch instead of the classes."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding, op_of
from sonde.diagnosis.rules.losses.double_softmax import through_views

LOSSES = ("NllLoss", "NllLoss2D")


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    for graph in evidence.graphs[:3]:
        for index, node in enumerate(graph.nodes):
            below = through_views(graph, index) if node.name in LOSSES else None
            inner = None if below is None else graph.nodes[below]
            if inner is not None and inner.name == "Log" and inner.inputs:
                below = through_views(graph, below or 0)
                inner = None if below is None else graph.nodes[below]
            if inner is None or inner.name not in ("LogSoftmax", "Softmax") or not inner.shape:
                continue
            dim = inner.saved.get("dim")
            if not isinstance(dim, int) or len(inner.shape) < 2:
                continue
            dim += len(inner.shape) if dim < 0 else 0
            wrong = dim == 0 if node.shape is not None else False
            if wrong and inner.shape[0] > 1 and node.name == "NllLoss" and len(inner.shape) == 2:
                yield finding(
                    "softmax-wrong-dim",
                    "established",
                    f"softmax{at(inner.source)} runs over dimension 0, the {inner.shape[0]} "
                    "samples "
                    f"of the batch, instead of the {inner.shape[1]} classes",
                    step=graph.step,
                    where=[inner.source, op_of(inner.name)],
                    evidence={"dim": dim, "shape": list(inner.shape)},
                    advice=f"use dim=1 (or dim=-1){at(inner.source)}",
                )
                return


RULE = DiagnosisRule(
    "softmax-wrong-dim",
    judge,
    "Softmax that does not feed a loss over classes directly (attention, routing).",
    explains=("lr-too-low", "labels-misaligned"),
)
