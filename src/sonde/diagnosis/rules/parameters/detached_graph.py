"""A module runs and is to be trained, but the loss does not reach its parameters."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import EvidenceEvent, ParameterEvidence, TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding, outermost

WALKS = 3
HOW = {"detach": "detach()", "data": ".data", "tensor": "torch.tensor()"}
"""How a tensor is taken out of its graph, as the program writes it."""


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    leaf = evidence.first("loss-without-graph")
    if leaf is not None and leaf.count >= WALKS:
        yield _without_graph(leaf)
        return
    cut = [
        each
        for each in evidence.parameters
        if each.optimizer is not None
        and each.requires_grad
        and not each.reached
        and each.is_in_module
        and each.module_calls
        and len(each.samples) >= WALKS
        and all(sample.gradient is None for sample in each.samples)
        and not each.is_written
    ]
    reached = [each for each in evidence.parameters if each.reached >= WALKS]
    if evidence.walks < WALKS or not cut or not reached or _excused(evidence, cut):
        return
    detached = _cutting(evidence, {each.name for each in cut})
    how = "" if detached is None else HOW[detached.subject]
    modules = list(dict.fromkeys(outermost(each, reached) for each in cut))
    names = [each.name for each in cut]
    source = None if detached is None else detached.source
    yield finding(
        "detached-graph",
        "hypothesis" if detached is None else "established",
        f"{', '.join(modules[:3])} runs in every step, but the loss does not reach its "
        f"{len(cut)} parameters"
        + ("" if detached is None else f": the graph is cut by {how}{at(source)}"),
        step=0,
        where=[source, *modules[:3], *names[:4], None if detached is None else detached.subject],
        evidence={
            "parameters_not_reached": len(cut),
            "parameters_reached": len(reached),
            "graphs_seen": evidence.walks,
        },
        advice=f"remove {how}{at(source)}, or leave these parameters out of the optimizer"
        if detached
        else "look for .data, torch.no_grad(), .numpy() or a new tensor between these modules and "
        "the loss; if their output is not meant for the loss, leave them out of the optimizer",
    )


def _cutting(evidence: TrainingEvidence, cut: set[str]) -> EvidenceEvent | None:
    """The line that takes a tensor out of its graph that depends on these parameters: on most of
    them, and if there are several the first one."""
    found = [
        (len(cut.intersection(str(each.numbers["parameters"]).split())), each)
        for each in evidence.named("detach")
    ]
    most = max((count for count, _ in found), default=0)
    return next((each for count, each in found if count == most > 0), None)


def _without_graph(event: EvidenceEvent) -> Finding:
    """A loss that was made to require a gradient after it had lost its graph."""
    name = event.subject or "the loss"
    return finding(
        "detached-graph",
        "established",
        f"backward(){at(event.source)} starts at {name}, which no op computed with gradients: no "
        "parameter gets one",
        step=event.step,
        where=[event.source, event.subject],
        evidence={"parameters_reached": 0, "backward_passes": event.count},
        advice=f"compute {name} from the output of the network with ops that have a derivative: "
        "argmax, round, item(), numpy(), torch.tensor() and no_grad() have none, and "
        "requires_grad_() only hides the error about it",
        detail="loss-without-graph",
    )


def _excused(evidence: TrainingEvidence, cut: list[ParameterEvidence]) -> bool:
    return all(each.sibling_calls > each.module_calls for each in cut)


RULE = DiagnosisRule(
    "detached-graph",
    judge,
    "Modules that did not run; parameters that the program itself changes between the steps, or "
    "that some optimizer step's loss did reach; without a "
    "detach(), .data or torch.tensor() of what they compute it is a hypothesis, since the output "
    "may simply be unused.",
    explains=("unused-parameters", "vanishing-gradient", "lr-too-low", "zero-init"),
)
