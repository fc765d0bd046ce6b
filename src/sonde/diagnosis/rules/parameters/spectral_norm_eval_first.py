"""A spectral norm is used in eval mode before its first training call."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding

SHARE = 0.4


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    for event in evidence.named("spectral-norm-eval-first"):
        used, largest = (float(event.numbers[name] or 0) for name in ("used", "largest"))
        if abs(used) >= SHARE * largest:
            continue
        yield finding(
            "spectral-norm-eval-first",
            "established",
            f"{event.subject} has a spectral norm and is called in eval mode{at(event.source)} "
            f"before any training call: it divides by {used:.3g}, while the largest singular value "
            f"of its weight is at least {largest:.3g}, since its power iteration never ran",
            step=event.step,
            where=[event.source, event.subject, str(event.numbers["vector"])],
            evidence={"norm_used": used, "largest_singular_value": largest},
            advice="run a few forward passes in train mode first, or load trained weights"
            f"{at(event.source)}",
        )
        return


RULE = DiagnosisRule(
    "spectral-norm-eval-first",
    judge,
    "A first call in train mode; a norm of at least 0.4 of the largest singular value, as after a "
    "loaded checkpoint, in a copy of a trained module, or with the iterations that "
    "parametrizations.spectral_norm runs when it is made; weights of more than 4 million elements.",
)
