"""The state that was kept as the best one follows the training: it was not copied."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    for name in ("old-state-of-itself", "old-state-saved"):
        event = evidence.first(name)
        if event is None:
            continue
        numbers = event.numbers
        verb = "loaded" if name == "old-state-of-itself" else "saved"
        yield finding(
            "aliased-best-state",
            "established",
            f"the state_dict() taken {numbers['age']} steps before is {verb}{at(event.source)}, "
            "but "
            "it shares the memory of the model: it holds the weights of now, not those of then",
            step=event.step,
            where=[_line(str(numbers["taken"] or "")), event.source],
            evidence={"steps_between": numbers["age"]},
            advice="copy the state when it is taken: copy.deepcopy(model.state_dict())",
        )
        return


def _line(text: str) -> str | None:
    return text.rpartition("/")[2].split(" ")[0] or None


RULE = DiagnosisRule(
    "aliased-best-state",
    judge,
    "A state that was copied; a state that is loaded or saved before the next step.",
)
