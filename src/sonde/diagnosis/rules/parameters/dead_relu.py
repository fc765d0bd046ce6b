"""All units of a ReLU layer are zero for every sample, step after step."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import EvidenceEvent, LossGraph, TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding

STRIKES = 5
FELL = 0.9
ENOUGH = 30
DIFFERENCES = ("Sub", "Rsub", "Add", "Neg", "Mul")
"""What a margin compares a score by."""


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    alive = {(each.source, each.subject): each.last_step for each in evidence.named("relu-alive")}
    dead: dict[str, None] = {}
    for event in evidence.named("relu-dead"):
        last = alive.get((event.source, event.subject), -1)
        strikes = event.last_step - max(last, event.step - 1)
        if event.count < STRIKES or strikes < STRIKES or event.last_step < evidence.steps - 20:
            continue
        names = [name for name in event.subject.split() if name != "input"]
        if not names or _starts_at_zero(evidence, names) or _is_met_margin(evidence, event):
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


def _is_met_margin(evidence: TrainingEvidence, event: EvidenceEvent) -> bool:
    """Whether the ReLU is a term of the loss, as in a hinge, with no layer behind it, and is given
    a difference, or the loss falls or is too short to tell: zero may be what it is trained for."""
    found: list[tuple[LossGraph, int]] = []
    for graph in evidence.graphs:  # The first that has the line: those of later ones are guessed.
        found = found or [
            (graph, index)
            for index, node in enumerate(graph.nodes)
            if node.name == "Relu" and node.source == event.source
        ]
    if not found or any(_has_layer_above(graph, index) for graph, index in found):
        return False
    inputs = [
        graph.nodes[each].name for graph, index in found for each in graph.nodes[index].inputs
    ]
    losses = evidence.losses
    falls = losses and median(losses[-max(4, len(losses) // 4) :]) < FELL * losses[0]
    return len(losses) < ENOUGH or bool(falls) or all(name in DIFFERENCES for name in inputs)


def _has_layer_above(graph: LossGraph, start: int) -> bool:
    """Whether a parameter is combined with what was computed from ``start``."""
    above = {start}
    while True:
        grown = {
            index for index, node in enumerate(graph.nodes) if not above.isdisjoint(node.inputs)
        } - above
        if not grown:
            return False
        above |= grown
        for index in grown:
            beside = [each for each in graph.nodes[index].inputs if each not in above]
            if any(_is_weight(graph, each) for each in beside):
                return True


def _is_weight(graph: LossGraph, index: int) -> bool:
    """Whether the node is a parameter, or a view of one such as its transpose."""
    nodes = [index, *graph.nodes[index].inputs[:1]]
    return any(graph.nodes[each].parameter is not None for each in nodes)


RULE = DiagnosisRule(
    "dead-relu",
    judge,
    "A layer with any unit alive in the last steps; a layer that did not run; fewer than 5 steps; "
    "weights that are zero (zero-init says so); a margin in the loss that is met."
    " A ReLU on the output is no margin if the loss does not fall in 30 steps.",
    explains=("lr-too-low", "vanishing-gradient", "labels-misaligned"),
)
