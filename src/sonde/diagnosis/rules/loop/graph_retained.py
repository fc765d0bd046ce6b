"""The graphs of all losses so far are kept alive."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, finding

ALIVE = 20


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    event = evidence.first("graphs-alive")
    alive = 0 if event is None else int(event.numbers["most"] or 0)
    if event is None or alive < ALIVE:
        return
    backward = next((each.backward for each in evidence.optimizers if each.backward), None)
    holders = [each.subject for each in evidence.named("graphs-held")]
    held = evidence.first("loss-held")
    kept = f"{'.'.join(holders[:2])} keeps" if holders else "something keeps"
    yield finding(
        "graph-retained",
        "established",
        f"the graphs of up to {alive} losses are in memory at the same time: {kept} a loss, a term "
        "of it or an output with its graph in every step",
        step=0,
        where=[*holders, backward, None if held is None else held.subject],
        evidence={"graphs_alive": alive, "steps": evidence.steps},
        advice="keep loss.item() or loss.detach() in lists and sums"
        + (f", here in {holders[0]}" if holders else "")
        + ", not the tensor itself",
    )


RULE = DiagnosisRule("graph-retained", judge, "Fewer than 20 graphs at a time.")
