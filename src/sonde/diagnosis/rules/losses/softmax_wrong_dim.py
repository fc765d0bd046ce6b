"""Softmax runs over the batch, the queries or a single score instead of the classes or keys."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import GraphNode, LossGraph, TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding, op_of
from sonde.diagnosis.rules.losses.double_softmax import VIEWS, through_views

SOFTMAX = ("LogSoftmax", "Softmax")
LOSSES = (
    *("NllLoss", "MseLoss", "SmoothL1Loss", "HuberLoss"),
    *("BinaryCrossEntropy", "BinaryCrossEntropyWithLogits"),
)
TRANSPOSING = ("T", "Transpose", "Permute")
LAYERS = ("Addmm", "Mm", "Linear", "MkldnnLinear")
"""Nodes of linear layers."""
MERGING = ("View", "UnsafeView", "Reshape", "ReshapeAlias", "Expand", "Clone", "NativeDropout")
"""What lies between the weights of an attention and their product with the values."""


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    for graph in evidence.graphs[:3]:
        for search in (_before_loss, _over_batch, _over_queries, _over_one):
            found = search(evidence, graph)
            if found is not None:
                yield found
                return


def _before_loss(evidence: TrainingEvidence, graph: LossGraph) -> Finding | None:
    """A softmax over dimension 0 that feeds a loss over classes."""
    for index, node in enumerate(graph.nodes):
        below = _untransposed(graph, index) if node.name == "NllLoss" else None
        if below is not None and graph.nodes[below].name == "Log":
            below = _untransposed(graph, below)
        inner = None if below is None else graph.nodes[below]
        if inner is not None and inner.name in SOFTMAX and len(inner.shape or ()) == 2:
            samples, classes = inner.shape or ()
            if _dim(inner) == 0 and samples > 1:
                return _found(
                    graph,
                    inner,
                    f"dimension 0, the {samples} samples of the batch, instead of the {classes} "
                    "classes",
                    "use dim=1 (or dim=-1)",
                )
    return None


def _untransposed(graph: LossGraph, index: int) -> int | None:
    """The node that computed the values of a node, past views; None if one of them transposes:
    a loss over columns is then meant."""
    below = through_views(graph, index)
    while below is not None and (index := graph.nodes[index].inputs[0]) != below:
        if graph.nodes[index].name in TRANSPOSING:
            return None
    return below


def _over_batch(evidence: TrainingEvidence, graph: LossGraph) -> Finding | None:
    """A softmax over dimension 0 in a module whose samples depend on each other."""
    mixed = evidence.first("samples-mixed")
    if mixed is None:
        return None
    for node in graph.nodes:
        shape = node.shape or ()
        if node.name not in SOFTMAX or len(shape) < 2 or _dim(node) != 0 or shape[0] == shape[1]:
            continue
        # In a tensor of more dimensions the first may be time: the loss says how many samples.
        if (min(shape) > 1) if len(shape) == 2 else (1 < shape[0] == _samples(graph)):
            return _found(
                graph,
                node,
                f"dimension 0, the {shape[0]} samples of the batch: a change of one sample "
                f"changes the outputs of {mixed.numbers['rows']} others",
                "use dim=1",
            )
    return None


def _samples(graph: LossGraph) -> int | None:
    """How many samples the loss has, if it has one row of numbers for each."""
    for node in graph.nodes:
        if node.name in LOSSES and node.inputs:
            shape = graph.nodes[node.inputs[0]].shape or ()
            return shape[0] if len(shape) in (1, 2) else None
    return None


def _over_queries(evidence: TrainingEvidence, graph: LossGraph) -> Finding | None:
    """A softmax whose result is multiplied by values along another dimension than its own."""
    for node in graph.nodes:
        if node.name != "Bmm" or len(node.inputs) != 2:
            continue
        below = node.inputs[0]
        while graph.nodes[below].name in MERGING and graph.nodes[below].inputs:
            below = graph.nodes[below].inputs[0]
        inner = graph.nodes[below]
        shape = inner.shape or ()
        if inner.name == "Softmax" and len(shape) > 2 and _dim(inner) not in (None, len(shape) - 1):
            return _found(
                graph,
                inner,
                f"dimension {_dim(inner)} of the shape {list(shape)}, but the product"
                f"{at(node.source)} sums over dimension {len(shape) - 1}: the weights of a query "
                "do not add up to 1",
                "use dim=-1",
            )
    return None


def _over_one(evidence: TrainingEvidence, graph: LossGraph) -> Finding | None:
    """A softmax over the one output of a layer, which is 1 whatever the output is."""
    for index, node in enumerate(graph.nodes):
        shape, dim = node.shape or (), _dim(node)
        if node.name not in SOFTMAX or dim is None or shape[dim] != 1 or max(shape) == 1:
            continue
        below = through_views(graph, index)
        if below is None or graph.nodes[below].name not in LAYERS:
            continue
        layer = graph.nodes[below]
        if (layer.shape or ())[-1:] == (1,) and _has_parameter(graph, layer):
            others = next((number for number in range(1, len(shape)) if shape[number] > 1), 0)
            return _found(
                graph,
                node,
                f"dimension {dim} of the shape {list(shape)}, which has one element: its result is "
                f"{'0' if node.name == 'LogSoftmax' else '1'} whatever the scores are",
                f"use dim={others}" if others else "use sigmoid for one output, or two outputs",
            )
    return None


def _has_parameter(graph: LossGraph, layer: GraphNode) -> bool:
    """Whether a product is one with a parameter."""
    for each in layer.inputs:
        value = through_views(graph, each) if graph.nodes[each].name in VIEWS else each
        if value is not None and graph.nodes[value].name == "AccumulateGrad":
            return True
    return False


def _dim(node: GraphNode) -> int | None:
    dim = node.saved.get("dim")
    if not isinstance(dim, int) or node.shape is None:
        return None
    return dim + len(node.shape) if dim < 0 else dim


def _found(graph: LossGraph, node: GraphNode, what: str, change: str) -> Finding:
    return finding(
        "softmax-wrong-dim",
        "established",
        f"softmax{at(node.source)} runs over {what}",
        step=graph.step,
        where=[node.source, op_of(node.name)],
        evidence={"dim": _dim(node), "shape": list(node.shape or ())},
        advice=f"{change}{at(node.source)}",
    )


RULE = DiagnosisRule(
    "softmax-wrong-dim",
    judge,
    "Softmax over the batch in a loss (contrastive) or before a transposition, or in a module "
    "whose samples do not depend on each other; an attention whose weights are normalised again or "
    "transposed before the product.",
    explains=("lr-too-low", "labels-misaligned"),
)
