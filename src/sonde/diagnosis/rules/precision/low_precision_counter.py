"""A counter in low precision stops where adding 1 changes nothing."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, finding

STRIKES = 2


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    rose = {each.subject for each in evidence.named("counter-rose")}
    for event in evidence.named("counter-stuck"):
        if event.subject not in rose or event.count < STRIKES:
            continue
        numbers = event.numbers
        name = event.subject.rpartition(".")[2]
        yield finding(
            "low-precision-counter",
            "established",
            f"the counter {event.subject}, kept in {str(numbers['dtype']).removeprefix('torch.')}, "
            f"stays at {numbers['value']:g}, although it is still written to: there x + 1 is x",
            step=event.step,
            where=[event.subject, name],
            evidence=dict(numbers),
            advice=f"keep {name} as an integer or float32 buffer; .to(dtype) and .half() convert "
            "float buffers of a module",
        )
        return


RULE = DiagnosisRule(
    "low-precision-counter",
    judge,
    "Buffers that did not rise before, or are not written any more; values at which x + 1 differs.",
)
