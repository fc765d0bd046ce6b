"""A hook that is registered after the first compiled call never runs."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding

CALLS = 3


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    for event in evidence.named("late-hook"):
        numbers = event.numbers
        if numbers.get("ran") or int(numbers.get("calls") or 0) < CALLS:
            continue
        yield finding(
            "hook-ignored-by-compiled-code",
            "established",
            f"the hook registered{at(event.source)} on {event.subject} did not run in "
            f"{numbers['calls']} calls: the module was compiled before, without it",
            step=event.step,
            where=[event.source, str(numbers["register"]), event.subject],
            evidence={"calls": numbers["calls"], "hook_runs": 0},
            advice="register the hook before the first call of the compiled "
            f"module{at(event.source)}"
            ", or set torch._dynamo.config.skip_nnmodule_hook_guards = False",
        )
        return


RULE = DiagnosisRule(
    "hook-ignored-by-compiled-code",
    judge,
    "Hooks registered before the first compiled call; hooks that ran; fewer than 3 calls.",
)
