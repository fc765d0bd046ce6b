"""Vectors are normalised along the batch, and then compared along their features."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import LossGraph, TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding, op_of
from sonde.diagnosis.rules.losses.double_softmax import through_views

NORMS = ("LinalgVectorNorm", "Norm")
BOUNDS = ("ClampMin", "Add", "Maximum", "Clamp")
"""What keeps a norm from being zero."""
PRODUCTS = ("Mm", "Addmm")
PASSED = ("Cat", "Mul", "Div", "ToCopy")
"""What lies between vectors and their product and keeps rows rows."""


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    for graph in evidence.graphs[:3]:
        for node in graph.nodes:
            vectors = _left(graph, node.inputs) if node.name in PRODUCTS else None
            divided = None if vectors is None else _normalised(graph, vectors)
            if divided is None:
                continue
            division = graph.nodes[divided]
            rows, features = division.shape or (0, 0)
            if min(rows, features) < 2:
                continue
            yield finding(
                "normalize-wrong-dim",
                "established",
                f"the {rows} vectors of a batch are divided{at(division.source)} by norms along "
                f"dimension 0, over the batch, but the product{at(node.source)} sums over their "
                f"{features} features: its results are no cosines, and samples change each other",
                step=graph.step,
                where=[division.source, node.source, op_of(division.name)],
                evidence={"dim": 0, "shape": [rows, features]},
                advice=f"normalise each vector: use dim=-1{at(division.source)}",
            )
            return


def _left(graph: LossGraph, inputs: tuple[int, ...]) -> int | None:
    """The node of the left operand of a product. A product with a bias has that first, and autograd
    leaves out an operand without gradients."""
    matrices = [each for each in inputs if len(graph.nodes[each].shape or ()) == 2]
    return matrices[0] if len(matrices) == 2 else None


def _normalised(graph: LossGraph, index: int) -> int | None:
    """The division of the rows ``index`` by their norms along dimension 0; None if they are not, or
    are a parameter."""
    while True:
        node = graph.nodes[index]
        if node.name == "Div" and len(node.inputs) == 2 and _is_norm_of(graph, *node.inputs):
            return index
        if node.name not in PASSED or not node.inputs:
            return None
        index = node.inputs[0]


def _is_norm_of(graph: LossGraph, values: int, divisor: int) -> bool:
    """Whether ``divisor`` has the norms of ``values`` along dimension 0."""
    found: int | None = divisor
    if graph.nodes[divisor].name not in NORMS:
        found = through_views(graph, divisor, BOUNDS)
    norm = None if found is None else graph.nodes[found]
    return (
        norm is not None
        and norm.name in NORMS
        and norm.saved.get("dim") == 0
        and norm.inputs[:1] == (values,)
        and graph.nodes[values].name != "AccumulateGrad"
        and len(graph.nodes[values].shape or ()) == 2
    )


RULE = DiagnosisRule(
    "normalize-wrong-dim",
    judge,
    "A matrix that is transposed before the product, which then sums over the batch (correlations "
    "of features); a parameter; vectors that are not multiplied with others; products in which "
    "only one operand has a gradient.",
    explains=("lr-too-low", "labels-misaligned"),
)
