"""Probabilities are given to a loss that expects logits and applies softmax itself."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import GraphNode, LossGraph, TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding, op_of

VIEWS = (
    *("View", "Reshape", "UnsafeView", "Squeeze", "Unsqueeze", "Transpose", "Permute", "Clone"),
    *("ToCopy", "Slice", "Select", "Expand", "Alias", "T", "ReshapeAlias", "Unbind", "Split"),
    *("SplitWithSizes", "Chunk", "Narrow", "Flip", "Roll"),
)
SELECTIONS = ("Index", "IndexSelect", "MaskedSelect", "Gather", "Unfold", "Clamp", "ClampMin")
"""Nodes whose results are elements of their input, or its limits."""
JOINING = ("Stack", "Cat")


APPLIED = {"LogSoftmax": "Softmax", "BinaryCrossEntropyWithLogits": "Sigmoid"}
"""Nodes of losses, and the activation that they contain."""


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    for graph in evidence.graphs[:3]:
        for index, node in enumerate(graph.nodes):
            is_log_softmax = _is_log_softmax(graph, node)
            activation = "Softmax" if is_log_softmax else APPLIED.get(node.name)
            if activation is None or not node.inputs:
                continue
            inner = probabilities(graph, node.inputs[0], activation)
            if inner is not None:
                yield _found(graph, inner, index, activation.lower())
                return


def _is_log_softmax(graph: LossGraph, node: GraphNode) -> bool:
    """Whether a node subtracts from values the logarithm of the sum of their exponentials, as
    ``Categorical(logits=...)`` does."""
    if node.name != "Sub" or len(node.inputs) != 2:
        return False
    values, norm = node.inputs
    if graph.nodes[norm].name in VIEWS:
        norm = through_views(graph, norm) or norm
    return graph.nodes[norm].name == "Logsumexp" and values in graph.nodes[norm].inputs


def probabilities(graph: LossGraph, start: int, activation: str) -> int | None:
    """The ``activation`` that all values of a node come from unchanged; None if there is another
    node between, or other values beside."""
    index: int | None = start
    if graph.nodes[start].name in (*VIEWS, *SELECTIONS):
        index = through_views(graph, start, SELECTIONS)
    if index is None:
        return None
    if graph.nodes[index].name in JOINING:
        found = [probabilities(graph, each, activation) for each in graph.nodes[index].inputs]
        return found[0] if found and None not in found else None
    return index if graph.nodes[index].name == activation else None


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
