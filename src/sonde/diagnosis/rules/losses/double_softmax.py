"""Probabilities are given to a loss that expects logits and applies softmax itself."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import LossGraph, TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding, op_of

VIEWS = (
    *("View", "Reshape", "UnsafeView", "Squeeze", "Unsqueeze", "Transpose", "Permute", "Clone"),
    *("ToCopy", "Slice", "Select", "Expand", "Alias", "T", "ReshapeAlias"),
)


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    for graph in evidence.graphs[:3]:
        for index, node in enumerate(graph.nodes):
            if node.name == "LogSoftmax":
                below = through_views(graph, index)
                if below is not None and graph.nodes[below].name == "Softmax":
                    yield _found(graph, below, index, "softmax")
                    return
            if node.name == "BinaryCrossEntropyWithLogits":
                below = through_views(graph, index)
                if below is not None and graph.nodes[below].name == "Sigmoid":
                    yield _found(graph, below, index, "sigmoid")
                    return


def through_views(graph: LossGraph, index: int, also: tuple[str, ...] = ()) -> int | None:
    """The node that computed the values of the first input of a node, past views, casts and the
    nodes of ``also``."""
    while graph.nodes[index].inputs:
        index = graph.nodes[index].inputs[0]
        if graph.nodes[index].name not in (*VIEWS, *also):
            return index
    return None


def _found(graph: LossGraph, inner: int, outer: int, name: str) -> Finding:
    first, second = graph.nodes[inner], graph.nodes[outer]
    return finding(
        "double-softmax",
        "established",
        f"the output of {name}{at(first.source)} is given to a loss{at(second.source)} that "
        "applies "
        f"{name} again",
        step=graph.step,
        where=[first.source, second.source, op_of(first.name), op_of(second.name)],
        evidence={"inner": first.name, "outer": second.name},
        advice=f"remove {name}{at(first.source)} and give the loss the logits",
        detail="" if name == "softmax" else "double-sigmoid",
    )


RULE = DiagnosisRule(
    "double-softmax",
    judge,
    "log_softmax after log_softmax, which changes nothing; softmax inside the network (attention).",
    explains=("lr-too-low", "vanishing-gradient", "labels-misaligned"),
)
