"""The derivative of a root, quotient or logarithm at zero is infinite."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    bad = evidence.first("gradient-not-finite")
    if bad is None:
        return
    for event in evidence.named("singular-zero"):
        if event.subject not in ("Sqrt", "Rsqrt", "Pow", "Std") or event.step > bad.step:
            continue
        op = event.subject.lower()
        yield finding(
            "sqrt-at-zero",
            "established",
            f"{op}{at(event.source)} is given {event.numbers.get('zeros') or 'some'} zeros, where "
            "its derivative is infinite: the gradients become NaN",
            step=event.step,
            where=[event.source, op, f"{event.subject}Backward0"],
            evidence={**event.numbers, "gradients_not_finite": bad.numbers["tensors"]},
            advice=f"add a small number under the root{at(event.source)}, such as (x + "
            "1e-12).sqrt()",
        )
        return


RULE = DiagnosisRule(
    "sqrt-at-zero",
    judge,
    "Gradients that stay finite; norms, whose derivative at zero torch defines as zero.",
    explains=("non-finite-loss", "non-finite-op", "exploding-gradient", "lr-too-high"),
)
