"""Every parameter that an optimizer holds is frozen."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding

STEPS = 3


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    for each in evidence.optimizers:
        if each.steps < STEPS or not each.parameters or each.frozen < each.parameters:
            continue
        held = [one.name for one in evidence.parameters if one.optimizer == each.name]
        modules = [name.rpartition(".")[0] for name in held]
        yield finding(
            "frozen-parameters",
            "established",
            f"all {each.parameters} parameters of {each.name}, made{at(each.created)}, have "
            "requires_grad=False: its steps change nothing",
            step=0,
            where=[each.created, *held[:4], *modules[:2], each.name, each.variable],
            evidence={"parameters": each.parameters, "frozen": each.frozen, "steps": each.steps},
            advice="set requires_grad=True for the parameters that are to be trained, or give the "
            f"optimizer{at(each.created)} those that are",
        )


RULE = DiagnosisRule(
    "frozen-parameters",
    judge,
    "An optimizer with at least one parameter that is not frozen: a part frozen on purpose.",
    explains=("unused-parameters", "lr-too-low", "zero-init", "detached-graph"),
)
