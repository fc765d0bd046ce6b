"""The gradient shrinks from layer to layer until the first layers get none."""

from __future__ import annotations

import math
from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.core.graph import Source
from sonde.diagnosis.evidence import ParameterEvidence, TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, finding, op_of

RATIO = 1e-6
SAMPLES = 3
LAYERS = 5
SQUASHING = ("Sigmoid", "Tanh", "Softsign", "Hardtanh", "Hardsigmoid")


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    for optimizer in evidence.optimizers:
        chain = [
            each
            for each in evidence.parameters
            if each.optimizer == optimizer.name
            and len(each.shape) >= 2
            and len(each.samples) >= 3
            and each.reached
            and each.requires_grad
            and not each.is_zero_at_start
        ]
        if len(chain) < LAYERS:
            continue
        chain.sort(key=lambda each: each.position)
        first, last = chain[0], _strongest(evidence, chain)
        ratios = [
            (left.gradient or 0.0) / right.gradient
            for left, right in zip(first.samples, last.samples, strict=False)
            if right.gradient
            and math.isfinite(right.gradient)
            and right.step == left.step
            and left.gradient
        ]
        if len(ratios) < SAMPLES or max(ratios) > RATIO:
            continue
        yield finding(
            "vanishing-gradient",
            "supported",
            f"the gradient of {first.name} is {max(ratios):.1g} times that of {last.name} in "
            f"every step measured: it vanishes in the {len(chain)} layers between them",
            step=first.samples[0].step,
            where=[first.name, first.module, *_squashing(evidence), last.name],
            evidence={
                "first_layer": first.samples[0].gradient,
                "last_layer": last.samples[0].gradient,
                "layers": len(chain),
            },
            advice="use ReLU or GELU in place of sigmoid or tanh, residual connections, "
            "normalisation, or an initialisation that fits the activation",
        )
        return


def _strongest(evidence: TrainingEvidence, chain: list[ParameterEvidence]) -> ParameterEvidence:
    """The last matrix, or the bias behind it if that has a larger gradient: where the signal
    vanishes on its way forward, the gradient of the last matrix, a product with it, does too."""
    last = chain[-1]
    later = [
        each
        for each in evidence.parameters
        if each.optimizer == last.optimizer
        and each.position >= last.position
        and each.reached
        and len(each.samples) >= SAMPLES
    ]
    return max([last, *later], key=lambda each: each.samples[0].gradient or 0.0)


def _squashing(evidence: TrainingEvidence) -> list[Source | str | None]:
    """The lines and ops of activations with flat ends."""
    nodes = [
        node
        for graph in evidence.graphs[:1]
        for node in graph.nodes
        if node.name in SQUASHING and node.source is not None
    ]
    lines = list(dict.fromkeys(node.source for node in reversed(nodes)))[:2]
    return [*lines, *dict.fromkeys(op_of(node.name) for node in nodes)]


RULE = DiagnosisRule(
    "vanishing-gradient",
    judge,
    "Fewer than 5 layers; gradients that are exactly zero, which have other causes; frozen layers.",
    explains=("lr-too-low", "labels-misaligned"),
)
