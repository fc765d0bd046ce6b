"""A spectral norm is used in eval mode before its first training call."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnose.evidence import Evidence
from sonde.diagnose.rule import Rule, at, finding

STRIKES = 1


def judge(evidence: Evidence) -> Iterator[Finding]:
    for event in evidence.named("spectral-norm-eval-first"):
        yield finding(
            "spectral-norm-eval-first",
            "established",
            f"{event.subject} has a spectral norm and is called in eval mode{at(event.source)} "
            "before any training call: its power iteration never ran, so the norm is arbitrary",
            step=event.step,
            where=[
                event.source,
                event.subject,
                "spectral_norm",
                "weight_u",
                "eval",
                str(event.numbers["root"]),
            ],
            evidence={"calls": event.count},
            advice="run a few forward passes in train mode first, or load trained weights"
            f"{at(event.source)}",
        )
        return


RULE = Rule(
    "spectral-norm-eval-first",
    judge,
    "A first call in train mode; weights loaded from a checkpoint before the first call.",
)
