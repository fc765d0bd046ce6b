"""The model is trained in eval mode: dropout and batch statistics are off."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.core.graph import Source
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding

STRIKES = 5


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    for event in evidence.named("root-trained"):
        numbers = event.numbers
        in_eval, calls = int(numbers["in_eval"] or 0), int(numbers["calls"] or 0)
        sensitive = str(numbers["sensitive"] or "").split()
        if in_eval < STRIKES or not sensitive or not numbers["trains"]:
            continue
        if in_eval < 0.5 * calls:
            continue
        file, line = str(numbers["eval_file"] or ""), int(numbers["eval_line"] or 0)
        source = Source(file, line, "", str(numbers["eval_code"])) if file else None
        yield finding(
            "left-in-eval",
            "established",
            f"{event.subject} is trained in eval mode in {in_eval} of {calls} calls"
            + (f": eval(){at(source)} is not undone" if source else ""),
            step=int(numbers["eval_step"] or 0),
            where=[
                source,
                event.source,
                *sensitive[:4],
                *str(numbers["kinds"]).split(),
            ],
            evidence={"calls": calls, "calls_in_eval_mode": in_eval},
            advice="call model.train() before the training loop, and again after each evaluation"
            f"{at(source)}",
        )
        return


RULE = DiagnosisRule(
    "left-in-eval",
    judge,
    "A model without dropout and batch normalisation; layers frozen in eval mode inside a model in "
    "train mode; a network that is not trained itself.",
)
