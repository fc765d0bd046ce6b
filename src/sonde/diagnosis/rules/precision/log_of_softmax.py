"""The logarithm of a softmax that underflowed to zero is infinite."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding, op_of
from sonde.diagnosis.rules.losses.double_softmax import through_views

SELECTING = ("Gather", "Index", "IndexSelect", "Take", "MaskedSelect", "Neg", "Mul", "Sum")
"""Nodes between the two: the probability of the target class is selected."""


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    event = next(
        (each for each in evidence.named("singular-zero") if each.subject.startswith("Log")), None
    )
    for graph in evidence.graphs:
        for index, node in enumerate(graph.nodes):
            if not node.name.startswith("Log") or node.name == "LogSoftmax":
                continue
            below = through_views(graph, index, SELECTING)
            if below is None or graph.nodes[below].name not in ("Softmax", "Sigmoid"):
                continue
            is_bad = event is not None and evidence.first_bad_loss is not None
            name = graph.nodes[below].name.lower()
            yield finding(
                "log-of-softmax",
                "established" if is_bad else "hypothesis",
                f"log{at(node.source)} of {name}"
                + (
                    " is given zeros: probabilities underflowed, and the loss is infinite"
                    if is_bad
                    else " becomes infinite when a probability underflows"
                ),
                step=graph.step if event is None else event.step,
                where=[node.source, graph.nodes[below].source, op_of(node.name), name],
                evidence={} if event is None else dict(event.numbers),
                advice=f"use log_softmax (or logsigmoid) on the logits{at(node.source)}",
            )
            return


RULE = DiagnosisRule(
    "log-of-softmax",
    judge,
    "A loss that stays finite: then it is only a hypothesis.",
    explains=(
        "non-finite-loss",
        "non-finite-op",
        "exploding-gradient",
        "lr-too-high",
        "sqrt-at-zero",
    ),
)
