"""The optimizer holds parameters that the model does not use any more."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding

WALKS = 3


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    if evidence.walks < WALKS:
        return
    for optimizer in evidence.optimizers:
        held = [each for each in evidence.parameters if each.optimizer == optimizer.name]
        stale = [
            each
            for each in held
            if each.requires_grad and (each.is_replaced or not (each.reached or each.is_in_module))
        ]
        loose = [
            each
            for each in evidence.parameters
            if each.optimizer is None and each.reached >= WALKS and not each.is_written
        ]
        # A new head has another number of classes, and the same number of dimensions.
        pairs = [
            (old, new)
            for old in stale
            for new in loose
            if len(new.shape) == len(old.shape) and new.shape[1:] == old.shape[1:]
        ]
        if (
            optimizer.steps < WALKS
            or not loose
            or not (pairs or (stale and len(stale) == len(held)))
        ):
            continue
        names = list(dict.fromkeys(each.name for each in loose))[:4]
        yield finding(
            "stale-optimizer-params",
            "established",
            f"{optimizer.name}, made{at(optimizer.created)}, holds {len(stale)} "
            f"parameter{'s' * (len(stale) > 1)} that no module uses, while {', '.join(names)} "
            f"{'are' if len(names) > 1 else 'is'} trained by no optimizer",
            step=0,
            where=[optimizer.created, *names, optimizer.name, optimizer.variable],
            evidence={"held": len(held), "unused": len(stale), "without_optimizer": len(loose)},
            advice="make the optimizer after the last change of the model (replaced layers, .to(), "
            f"quantisation), or make it anew: move the line{at(optimizer.created)}",
        )


RULE = DiagnosisRule(
    "stale-optimizer-params",
    judge,
    "Parameters left out of the optimizer on purpose: no parameter that it holds is unused then; "
    "weights that the program itself writes, such as copies of those that are trained.",
    explains=("unused-parameters", "unregistered-submodules", "lr-too-low", "detached-graph"),
)
