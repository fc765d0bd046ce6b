"""Parameters that were meant to be frozen are trained.

The model's own train() freezes them and was never called; the flag was set on a module, or is
misspelt; or the optimizer goes on with its momentum and decay.
"""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding

STRIKES = 2


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
    found = [*_without_effect(evidence, moved), *_with_momentum(evidence)]
    yield from found[:1] or _declared(evidence)


def _without_effect(evidence: TrainingEvidence, moved: set[str]) -> Iterator[Finding]:
    """An attribute that torch does not know was set to False, and the parameters are trained."""
    for event in evidence.named("freeze-without-effect"):
        trained = [name for name in str(event.numbers["names"]).split() if name in moved]
        if not trained:
            continue
        key = str(event.numbers["attribute"])
        module = trained[0].rpartition(".")[0]
        holder = "a module" if event.numbers["is_module"] else "a parameter"
        yield finding(
            "frozen-stage-trains",
            "established",
            f"{key} = False{at(event.source)} is an attribute of {holder}, which torch does not "
            f"know: parameters such as {trained[0]} are trained",
            step=0,
            where=[event.source, key, *trained[:4], module, module.split(".")[0]],
            evidence={"attribute": key, "trained": len(trained)},
            advice=f"call requires_grad_(False) of the module{at(event.source)}, or set "
            "requires_grad of each parameter",
        )


def _with_momentum(evidence: TrainingEvidence) -> Iterator[Finding]:
    """An optimizer changes parameters that are frozen and have no gradient."""
    events = [each for each in evidence.named("frozen-moved") if each.count >= STRIKES]
    if not events:
        return
    entry = next((one for one in evidence.parameters if one.name == events[0].subject), None)
    optimizer = evidence.optimizer(None if entry is None else entry.optimizer)
    names = [each.subject for each in events]
    yield finding(
        "frozen-stage-trains",
        "established",
        f"{names[0]} has requires_grad=False and no gradient, but "
        f"{'an optimizer' if optimizer is None else optimizer.name} still changes it: its gradient "
        "is zero, not None, so that momentum and decay act on it",
        step=events[0].step,
        where=[
            *([] if optimizer is None else [optimizer.stepped, optimizer.cleared, optimizer.name]),
            *names[:4],
            names[0].rpartition(".")[0],
        ],
        evidence={"parameters": len(names), "update": events[0].numbers["update"]},
        advice="set the gradient of frozen parameters to None (zero_grad() does), or leave them "
        "out of the optimizer",
    )


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
    "than 16 million elements; attributes with other names; frozen parameters whose gradient is "
    "None. An attribute that is only named after freezing (frozen_stages=1) "
    "while no parameter is frozen is a hypothesis.",
)
