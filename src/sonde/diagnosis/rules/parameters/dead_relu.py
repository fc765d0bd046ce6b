"""All units of a ReLU layer are zero for every sample, step after step."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding

STRIKES = 5


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    alive = {(each.source, each.subject): each.last_step for each in evidence.named("relu-alive")}
    dead: dict[str, None] = {}
    for event in evidence.named("relu-dead"):
        last = alive.get((event.source, event.subject), -1)
        strikes = event.last_step - max(last, event.step - 1)
        if event.count < STRIKES or strikes < STRIKES or event.last_step < evidence.steps - 20:
            continue
        names = [name for name in event.subject.split() if name != "input"]
        if not names or _starts_at_zero(evidence, names):
            continue
        dead.update(dict.fromkeys(names))
        modules = list(dict.fromkeys(name.rpartition(".")[0] for name in names))
        yield finding(
            "dead-relu",
            "established",
            f"all {event.numbers['units']} outputs of the ReLU{at(event.source)} after "
            f"{modules[0] or names[0]} are zero in {event.count} steps: no gradient passes it",
            step=max(last + 1, event.step),
            where=[event.source, str(event.numbers["op"]), *modules, *names],
            evidence={"units": event.numbers["units"], "steps": event.count},
            advice=f"check the bias and the scale of {modules[0] or names[0]}; a smaller rate or "
            "LeakyReLU keeps units alive",
        )
        return


def _starts_at_zero(evidence: TrainingEvidence, names: list[str]) -> bool:
    return any(each.name in names and each.is_zero_at_start for each in evidence.parameters)


RULE = DiagnosisRule(
    "dead-relu",
    judge,
    "A layer with any unit alive in the last steps; a layer that did not run; fewer than 5 steps; "
    "weights that are zero (zero-init says so).",
    explains=("lr-too-low", "vanishing-gradient", "labels-misaligned"),
)
