"""Every epoch has the same order of samples."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding

STRIKES = 2


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    event = evidence.first("sampler-epoch-kept")
    if event is not None:
        yield finding(
            "sampler-same-order",
            "established",
            f"{event.subject} begins an epoch{at(event.source)} without set_epoch(): it gives the "
            f"order of epoch {event.numbers['epoch']} again",
            step=event.step,
            where=[event.source, event.subject],
            evidence={"epoch": event.numbers["epoch"], "epochs_repeated": event.count},
            advice=f"call sampler.set_epoch(epoch) before the loop over batches{at(event.source)}",
        )
        return
    event = evidence.first("same-order")
    if event is not None:
        yield finding(
            "sampler-same-order",
            "established",
            f"two epochs of the shuffling loader{at(event.source)} have the same order of "
            f"{event.numbers['rows']} samples",
            step=event.step,
            where=[event.source, event.subject],
            evidence=dict(event.numbers),
            advice="do not seed the generator of the loader again in every epoch",
        )
        return
    event = evidence.first("same-permutation")
    if event is not None and event.count >= STRIKES:
        yield finding(
            "sampler-same-order",
            "established",
            f"{event.subject}{at(event.source)} draws the same order of {event.numbers['rows']} "
            f"samples {event.count + 1} times, in different steps",
            step=event.step,
            where=[event.source, event.subject],
            evidence={**event.numbers, "repeated": event.count},
            advice="make the generator once, before the epochs, or seed it with the number of the "
            f"epoch{at(event.source)}",
        )


RULE = DiagnosisRule(
    "sampler-same-order",
    judge,
    "Samplers that do not shuffle; fewer than two epochs; an order of the program's own that is "
    "drawn once, again in the same step, without gradients or in eval mode.",
)
