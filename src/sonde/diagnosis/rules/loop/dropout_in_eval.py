"""Dropout is active in eval mode."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    event = evidence.first("dropout-in-eval")
    if event is None:
        return
    numbers = event.numbers
    p, function = numbers["p"], numbers["function"]
    how, change = "training=True", "pass training=self.training"
    if not numbers["argument"]:
        how = "training=True, which is the default"
    if numbers["argument"] == "dropout_p":
        how = f"dropout_p={p:g} in every mode"
        change = f"pass dropout_p={p:g} if self.training else 0.0"
    if numbers["argument"] == "module":
        how = "a module that eval() does not reach: it is made in forward, or not registered"
        change = "make the nn.Dropout in __init__, as an attribute of the module, and call it"
    yield finding(
        "dropout-in-eval",
        "hypothesis" if numbers["argument"] == "training" else "established",
        f"{function}{at(event.source)} drops values although {event.subject} is in eval mode: it "
        f"is called {'by' if numbers['argument'] == 'module' else 'with'} {how}",
        step=event.step,
        where=[event.source, event.subject, str(function)],
        evidence={"p": p, "calls": event.count},
        advice=f"{change}{at(event.source)}",
    )


RULE = DiagnosisRule(
    "dropout-in-eval",
    judge,
    "nn.Dropout modules of the network that the program put into train mode (Monte Carlo dropout). "
    "training=True that the program itself passes is a hypothesis.",
)
