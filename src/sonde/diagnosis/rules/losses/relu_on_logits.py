"""The logits pass a ReLU before the loss, so that none can be negative."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import GraphNode, TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding, op_of
from sonde.diagnosis.rules.losses.double_softmax import SELECTIONS, through_views

LOSSES = ("LogSoftmax", "BinaryCrossEntropyWithLogits")
PASSED = tuple(name for name in SELECTIONS if not name.startswith("Clamp"))


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    for graph in evidence.graphs[:3]:
        for index, node in enumerate(graph.nodes):
            below = through_views(graph, index, PASSED) if node.name in LOSSES else None
            if below is None or not _cuts_negatives(graph.nodes[below]):
                continue
            relu = graph.nodes[below]
            names = graph.parameters_below(below, 2)
            yield finding(
                "relu-on-logits",
                "established",
                f"the logits pass a ReLU{at(relu.source)} before the loss{at(node.source)}: no "
                "class can get a negative score",
                step=graph.step,
                where=[relu.source, node.source, op_of(relu.name), *names],
                evidence={"activation": relu.name, "loss": node.name},
                advice=f"remove the ReLU after the last layer{at(relu.source)}",
            )
            return


def _cuts_negatives(node: GraphNode) -> bool:
    """Whether it is a ReLU, or ``clamp(min=0)``."""
    is_clamp = node.name in ("Clamp", "ClampMin") and node.saved.get("min") == 0
    return node.name in ("Relu", "Relu6") or (is_clamp and "max" not in node.saved)


RULE = DiagnosisRule(
    "relu-on-logits",
    judge,
    "A ReLU with a layer between it and the loss; other activations.",
    explains=("dead-relu", "lr-too-low"),
)
