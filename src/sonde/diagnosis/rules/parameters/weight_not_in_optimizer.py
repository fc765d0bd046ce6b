"""A weight has a gradient, but no optimizer that steps holds it.

In a diagnosis: a weight that a loss function made for itself, such as a learned temperature or the
weights of several tasks. Layers of a network are left out of an optimizer on purpose often.
"""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding

WALKS = 3


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    left = [
        each
        for each in evidence.parameters
        if each.loss and each.optimizer is None and each.requires_grad and each.reached >= WALKS
    ]
    optimizer = next((each for each in evidence.optimizers if each.steps >= WALKS), None)
    if not left or optimizer is None or any(each.is_written for each in left):
        return
    names = [each.name for each in left]
    is_one = len(names) == 1
    text = names[0] if is_one else f"{len(names)} weights ({', '.join(names[:3])})"
    them = "it" if is_one else "them"
    yield finding(
        "weight-not-in-optimizer",
        "supported",
        f"the loss function {left[0].loss} learns {text} of its own, and no optimizer holds "
        f"{them}: no step changes {them}",
        step=0,
        where=[optimizer.created, *names[:4], left[0].loss, optimizer.name],
        evidence={"weights": len(left), "graphs_seen": evidence.walks},
        advice="give the parameters of the loss function to "
        f"{optimizer.name}{at(optimizer.created)}, or set requires_grad to False if "
        "they shall not be learned",
    )


RULE = DiagnosisRule(
    "weight-not-in-optimizer",
    judge,
    "Layers of networks, which are left out of an optimizer on purpose often; weights inside the "
    "layers of a loss function, such as a pretrained network that compares pictures.",
)
