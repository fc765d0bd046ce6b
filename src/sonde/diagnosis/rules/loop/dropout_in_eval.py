"""Dropout is active in an evaluation."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding

STRIKES = 3


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    event = evidence.first("dropout-in-eval")
    if event is None:
        yield from _in_train_mode(evidence)
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


def _in_train_mode(evidence: TrainingEvidence) -> Iterator[Finding]:
    """Losses are computed without gradients by a network that is still in train mode."""
    for event in evidence.named("evaluated-in-train-mode"):
        if event.count < STRIKES or event.last_step == event.step:
            continue
        yield finding(
            "dropout-in-eval",
            "supported",
            f"the network is called{at(event.source)} without gradients for {event.count} losses "
            f"while it is in train mode: {event.subject} drops values in the evaluation",
            step=event.step,
            where=[event.source, event.subject],
            evidence={"p": event.numbers["p"], "losses": event.count},
            advice=f"call model.eval() before the evaluation{at(event.source)}, and model.train() "
            "after it; model.eval without () calls nothing",
            detail="evaluated-in-train-mode",
        )
        return


RULE = DiagnosisRule(
    "dropout-in-eval",
    judge,
    "nn.Dropout modules of the network that the program put into train mode (Monte Carlo dropout). "
    "training=True that the program itself passes is a hypothesis. In train mode: losses with "
    "gradients; losses of a mean over several calls; fewer than 3 losses, or all of them between "
    "the same two steps.",
)
