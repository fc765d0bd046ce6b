"""Gradients are clipped on some ranks only."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, finding


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    for event in evidence.named("clip-differs"):
        numbers = event.numbers
        few, many = sorted((int(numbers["rank_0"] or 0), int(numbers["other"] or 0)))
        if many < 3 or few > 0.5 * many:
            continue
        line = event.subject.rpartition("/")[2].split(" ")[0]
        yield finding(
            "clip-on-one-rank",
            "established",
            f"gradients are clipped at {line} {numbers['rank_0']} times on rank 0 and "
            f"{numbers['other']} times on rank {numbers['rank']}: the weights of the ranks diverge",
            step=0,
            where=[line],
            evidence=dict(numbers),
            advice=f"clip on every rank: take clip_grad_norm_ at {line} out of the condition",
        )
        return


RULE = DiagnosisRule(
    "clip-on-one-rank",
    judge,
    "Ranks whose numbers of calls differ by less than half (an epoch that ends earlier).",
    explains=("ranks-differ-at-init", "lost-communication"),
)
