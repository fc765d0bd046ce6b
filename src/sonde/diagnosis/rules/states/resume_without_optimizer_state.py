"""A training resumes from a checkpoint without the state of its optimizer."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import OptimizerEvidence, TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    loaded = {each.subject for each in evidence.named("optimizer-state-loaded")}
    for event in evidence.named("loaded-weights-trained"):
        optimizer = evidence.optimizer(event.subject)
        if optimizer is None or event.subject in loaded or not _has_state(optimizer.state_keys):
            continue
        numbers = event.numbers
        if not numbers["progress"] and not numbers["holds_optimizer"]:
            continue
        saved = next(
            (each for each in evidence.named("saved") if not each.numbers["optimizer"]), None
        )
        holds = numbers["holds_optimizer"]
        is_other = bool(numbers["saved_here"]) and _is_other_training(evidence, optimizer)
        yield finding(
            "resume-without-optimizer-state",
            "hypothesis" if is_other else "established",
            f"the weights are loaded from {numbers['file']}{at(event.source)}, but "
            f"{optimizer.name} starts anew: "
            + (
                "its state in the file is not loaded"
                if holds
                else "the file does not hold its state"
            ),
            step=event.step,
            where=[
                event.source,
                None if saved is None else saved.source,
                str(numbers["file"]),
                optimizer.variable,
                *optimizer.state_keys[:2],
            ],
            evidence={"state": list(optimizer.state_keys), "file_holds_optimizer": bool(holds)},
            advice="save optimizer.state_dict() beside the weights and load it with "
            "optimizer.load_state_dict() before training goes on",
        )
        return


def _is_other_training(evidence: TrainingEvidence, optimizer: OptimizerEvidence) -> bool:
    """Whether all optimizers before it are of other classes or began with other rates."""
    number = evidence.optimizers.index(optimizer)
    earlier = [each for each in evidence.optimizers[:number] if each.steps]
    return bool(earlier) and all(
        (each.kind, each.rates[:1]) != (optimizer.kind, optimizer.rates[:1]) for each in earlier
    )


def _has_state(keys: tuple[str, ...]) -> bool:
    return any(key not in ("step", "momentum_buffer") or key == "momentum_buffer" for key in keys)


RULE = DiagnosisRule(
    "resume-without-optimizer-state",
    judge,
    "A file that neither counts steps or epochs nor was written by this program: fine-tuning; a "
    "state of a part of the network, or a network with new parameters; an optimizer without state "
    "(plain SGD). A file of this program and an optimizer of another class or rate than those "
    "before is a hypothesis.",
)
