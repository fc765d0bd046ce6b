"""Prediction and target have different shapes, and the loss compares every pair."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding, op_of

STRIKES = 3


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    for event in evidence.named("loss-broadcast"):
        if event.count >= STRIKES:
            numbers = event.numbers
            yield finding(
                "loss-broadcast",
                "established",
                f"{event.subject}{at(event.source)} is given a prediction of shape "
                f"{numbers['input']} and a target of shape {numbers['target']}, and broadcasts "
                "them",
                step=event.step,
                where=[event.source, event.subject],
                evidence=dict(numbers),
                advice=f"give both the same shape{at(event.source)}, such as pred.squeeze(-1)",
            )
            return
    yield from _by_hand(evidence)


def _by_hand(evidence: TrainingEvidence) -> Iterator[Finding]:
    """A difference that has more elements than the prediction, averaged to the loss."""
    for graph in evidence.graphs[:3]:
        for node in graph.nodes:
            if node.name not in ("Sub", "Rsub") or node.shape is None or len(node.shape) != 2:
                continue
            given = [graph.nodes[each].shape for each in node.inputs]
            if any(graph.nodes[each].name == "Unsqueeze" for each in node.inputs):
                continue  # Each is compared with each on purpose.
            rows, columns = node.shape
            if rows == columns > 1 and len(given) == 1 and given[0] == (rows, 1):
                yield finding(
                    "loss-broadcast",
                    "established",
                    f"a difference{at(node.source)} of a prediction of shape {list(given[0])} has "
                    f"the shape {list(node.shape)}: every prediction is compared with every target",
                    step=graph.step,
                    where=[node.source, op_of(node.name)],
                    evidence={"prediction": list(given[0]), "difference": list(node.shape)},
                    advice=f"give prediction and target the same shape{at(node.source)}",
                )
                return


RULE = DiagnosisRule(
    "loss-broadcast",
    judge,
    "Shapes that are equal; a scalar target; a target that is repeated for several predictions; "
    "two tensors that are both unsqueezed, to compare each with each.",
    explains=("lr-too-low", "labels-misaligned"),
)
