"""Layers in a plain list or dictionary are used but not registered, so that nothing trains them."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, finding

WALKS = 3


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    loose = [
        each
        for each in evidence.parameters
        if each.optimizer is None and not each.is_in_module and each.reached >= WALKS
    ]
    if not loose:
        return
    names = [each.name for each in loose]
    lists = list(dict.fromkeys(name.split("[")[0] for name in names if "[" in name))
    objects = list(dict.fromkeys(name.split(".")[0] for name in names if "[" not in name))
    paths = lists or [each for each in objects if f"{each}." in " ".join(names)]
    holders = list(dict.fromkeys([*paths, *(path.rpartition(".")[2] for path in paths)]))
    yield finding(
        "unregistered-submodules",
        "established",
        f"the loss reaches {len(loose)} parameters ({', '.join(names[:3])}) that belong to no "
        "registered module and no optimizer",
        step=0,
        where=[*holders, *names[:4]],
        evidence={"parameters": len(loose), "graphs_seen": evidence.walks},
        advice=f"let what holds {names[0]} be an nn.Module, and make the optimizer after that"
        if paths and not lists
        else f"hold {holders[0] if holders else 'these layers'} in nn.ModuleList or nn.ModuleDict "
        "instead of a plain list or dictionary, and make the optimizer after that",
    )


RULE = DiagnosisRule(
    "unregistered-submodules",
    judge,
    "Parameters that an optimizer holds all the same; tensors that are no nn.Parameter.",
    explains=("lr-too-low",),
)
