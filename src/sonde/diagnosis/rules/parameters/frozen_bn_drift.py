"""The running statistics of frozen batch normalisation keep changing."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    events = evidence.named("frozen-norm-trains")
    for event in reversed(events):  # The last has the line of train(), if there is one.
        numbers = event.numbers
        frozen, total = int(numbers["frozen_parameters"] or 0), int(numbers["parameters"] or 0)
        if not numbers["moved"] or sum(each.count for each in events) < 2:
            continue
        part = f"{event.subject}.eval()" if frozen < total else "the frozen network's eval()"
        yield finding(
            "frozen-bn-drift",
            "supported",
            f"{numbers['norms']} batch normalisations such as {event.subject} are frozen "
            "(requires_grad=False), but in train mode: their running statistics change",
            step=0,
            where=[
                event.source,
                event.subject,
                f"{event.subject}.running_mean",
                event.subject.rpartition(".")[0],
            ],
            evidence={"frozen_parameters": frozen, "parameters": total, "norms": numbers["norms"]},
            advice=f"put the frozen part into eval mode after model.train(): {part}"
            f"{at(event.source)}",
        )
        return


RULE = DiagnosisRule(
    "frozen-bn-drift",
    judge,
    "Batch normalisation that is trained; frozen layers in eval mode; a network that is frozen "
    "whole and averaged from another one, or trained in turns (the critic of a GAN).",
)
