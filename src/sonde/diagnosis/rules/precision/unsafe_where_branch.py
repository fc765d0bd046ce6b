"""torch.where also computes the branch that it does not select, whose gradient is NaN."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    bad = evidence.first("gradient-not-finite")
    if bad is None:
        return
    for event in evidence.named("singular-behind-where"):
        op = event.subject.lower()
        yield finding(
            "unsafe-where-branch",
            "established",
            f"where(){at(event.source)} does not select all results of {op}, but its backward pass "
            f"multiplies their gradient, NaN or infinite, by zero: the gradients become NaN",
            step=bad.step,
            where=[event.source, op, f"{event.subject}Backward0"],
            evidence={"gradients_not_finite": bad.numbers["tensors"], "op": event.subject},
            advice=f"make the input of {op}{at(event.source)} safe before it: "
            f"{op}(where(condition, x, 1)), then where() around the result",
        )
        return


RULE = DiagnosisRule(
    "unsafe-where-branch",
    judge,
    "Gradients that stay finite; a root that is zero where it is selected, or that the loss uses "
    "outside of where(), too: sqrt-at-zero.",
    explains=(
        "sqrt-at-zero",
        "non-finite-loss",
        "non-finite-op",
        "exploding-gradient",
        "lr-too-high",
        "log-of-softmax",
    ),
)
