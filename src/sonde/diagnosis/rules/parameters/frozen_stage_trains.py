"""Parameters that a model's own train() freezes are trained: train() was never called."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    moved = {
        each.name
        for each in evidence.parameters
        if each.optimizer is not None and any(sample.update > 0 for sample in each.samples)
    }
    for event in evidence.named("freeze-in-train"):
        names = str(event.numbers["names"]).split()
        trained = [name for name in names if name in moved]
        if not trained:
            continue
        yield finding(
            "frozen-stage-trains",
            "established",
            f"train() of {event.subject}{at(event.source)} freezes {event.numbers['parameters']} "
            f"parameters such as {trained[0]}, but it was not called: they are trained",
            step=0,
            where=[event.source, *trained, trained[0].rpartition(".")[0]],
            evidence={"frozen_by_train": event.numbers["parameters"], "trained": len(trained)},
            advice="freeze in __init__, too, or call model.train() before the training loop: a "
            f"freeze inside train() takes effect only when the program calls it{at(event.source)}",
        )
        return
    yield from _declared(evidence)


def _declared(evidence: TrainingEvidence) -> Iterator[Finding]:
    event = evidence.first("freeze-declared")
    if event is None or not event.numbers["parameters"]:
        return
    name = event.subject.rpartition(".")[2]
    yield finding(
        "frozen-stage-trains",
        "hypothesis",
        f"{event.subject} is {event.numbers['value']}, but none of the "
        f"{event.numbers['parameters']} parameters of the module is frozen",
        step=event.step,
        where=[name, event.subject],
        evidence={name: event.numbers["value"], "parameters": event.numbers["parameters"]},
        advice=f"check that what {name} stands for is frozen before the training loop",
    )


RULE = DiagnosisRule(
    "frozen-stage-trains",
    judge,
    "A train() that was called, or that freezes nothing in a copy of the module; modules of more "
    "than 16 million elements. An attribute that is only named after freezing (frozen_stages=1) "
    "while no parameter is frozen is a hypothesis.",
)
