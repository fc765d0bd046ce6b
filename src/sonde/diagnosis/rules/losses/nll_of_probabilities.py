"""A loss that expects logarithms of probabilities is given the probabilities."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding, op_of
from sonde.diagnosis.rules.losses.double_softmax import probabilities

LOSSES = ("NllLoss", "NllLoss2D")


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    for graph in evidence.graphs[:3]:
        for node in graph.nodes:
            if node.name not in LOSSES or not node.inputs:
                continue
            inner = probabilities(graph, node.inputs[0], "Softmax")
            if inner is None:
                continue
            softmax = graph.nodes[inner]
            yield finding(
                "nll-of-probabilities",
                "established",
                f"nll_loss{at(node.source)} expects logarithms of probabilities, and is given "
                f"probabilities by softmax{at(softmax.source)}: the loss is between -1 and 0",
                step=graph.step,
                where=[softmax.source, node.source, op_of(softmax.name), op_of(node.name)],
                evidence={"inner": softmax.name, "outer": node.name},
                advice=f"use log_softmax in the place of softmax{at(softmax.source)}, or give "
                "the logits to cross_entropy",
            )
            return


RULE = DiagnosisRule(
    "nll-of-probabilities",
    judge,
    "A logarithm, or any other function, between softmax and the loss.",
    explains=("lr-too-low", "vanishing-gradient", "labels-misaligned"),
)
