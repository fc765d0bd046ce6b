"""The module inside DistributedDataParallel is called instead of the wrapper."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding

STRIKES = 3


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    called = {each.subject for each in evidence.named("ddp-called")}
    parts = [each for each in evidence.named("ddp-part-called") if each.subject not in called]
    for event in [*evidence.named("ddp-bypassed"), *parts]:
        if event.count < STRIKES:
            continue
        made = evidence.first("ddp-made")
        yield finding(
            "ddp-bypassed",
            "established",
            f"{event.subject} is trained by calling it{at(event.source)} instead of the DDP "
            "wrapper "
            f"made{at(None if made is None else made.source)}: gradients are not exchanged",
            step=event.step,
            where=[event.source, None if made is None else made.source, event.subject],
            evidence={"calls": event.count},
            advice=f"call the DDP wrapper{at(event.source)}",
        )
        return


RULE = DiagnosisRule(
    "ddp-bypassed",
    judge,
    "Calls without gradients (evaluation, saving); modules that are not wrapped; calls of parts of "
    "a module, or of its other methods, beside calls of the wrapper.",
    explains=("ranks-differ-at-init", "clip-on-one-rank", "lost-communication"),
)
