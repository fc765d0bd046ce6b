"""The state that was kept as the best one follows the training: it was not copied."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding

MOST_OFTEN = 0.3
"""The share of steps after which weights may be put back; copies of the weights that the optimizer
trains are copied back after every step."""


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    copied = evidence.first("weights-copied-to-themselves")
    if copied is not None and copied.count <= max(1, MOST_OFTEN * evidence.steps):
        tensors = copied.numbers["tensors"]
        yield finding(
            "aliased-best-state",
            "established",
            f"the {tensors} weights that are put back{at(copied.source)} share the memory of the "
            "weights that are trained: they hold the values of now, not those of then",
            step=copied.step,
            where=[copied.source, *copied.subject.split()],
            evidence={"tensors": tensors, "times": copied.count},
            advice="copy the weights when they are kept: p.detach().clone(); p, p.data and "
            "p.detach() share the memory",
        )
        return
    for name in ("old-state-of-itself", "old-state-saved"):
        event = evidence.first(name)
        if event is None:
            continue
        numbers = event.numbers
        verb = "loaded" if name == "old-state-of-itself" else "saved"
        yield finding(
            "aliased-best-state",
            "established",
            f"{_what(numbers['age'])} is {verb}{at(event.source)}, but it shares the memory of the "
            "model: it holds the weights of now, not those of then",
            step=event.step,
            where=[_line(str(numbers["taken"] or "")), event.source],
            evidence={} if numbers["age"] is None else {"steps_between": numbers["age"]},
            advice="copy the state when it is taken: copy.deepcopy(model.state_dict())",
        )
        return


def _what(age: object) -> str:
    return "the state" if age is None else f"the state_dict() taken {age} steps before"


def _line(text: str) -> str | None:
    return text.rpartition("/")[2].split(" ")[0] or None


RULE = DiagnosisRule(
    "aliased-best-state",
    judge,
    "A state that was copied; a state that is loaded or saved before the next step; weights that "
    "are copied to themselves after more than three of ten steps.",
)
