"""Parameters that an optimizer holds belong to modules that never run."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, finding, outermost

WALKS = 3
STEPS = 10


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    if evidence.walks < WALKS or evidence.steps < STEPS:
        return
    unused = [
        each
        for each in evidence.parameters
        if each.optimizer is not None
        and each.requires_grad
        and not each.reached
        and not each.module_calls
        and not each.sibling_calls
        and each.is_in_module
        and all(sample.gradient is None for sample in each.samples)
        and not each.is_written
    ]
    if not unused:
        return
    names = [each.name for each in unused]
    optimizer = evidence.optimizer(unused[0].optimizer)
    reached = [each for each in evidence.parameters if each.reached or each.module_calls]
    outer = [outermost(each, reached) for each in unused]
    modules = list(dict.fromkeys([*outer, *(each.module for each in unused if each.module)]))
    yield finding(
        "unused-parameters",
        "supported",
        f"{', '.join(modules[:3]) or names[0]} never runs: its {len(unused)} parameters are in "
        f"{unused[0].optimizer} and never get a gradient",
        step=0,
        where=[*modules[:3], *names[:4], None if optimizer is None else optimizer.created],
        evidence={"parameters": len(unused), "steps": evidence.steps},
        advice=f"call {modules[0] if modules else names[0]} in forward, or remove it",
    )


RULE = DiagnosisRule(
    "unused-parameters",
    judge,
    "Fewer than 10 steps; a module whose neighbours in a ModuleList or ModuleDict run (an idle "
    "expert, a skipped block); frozen parameters; parameters that the program itself "
    "changes; parameters that no optimizer holds.",
)
