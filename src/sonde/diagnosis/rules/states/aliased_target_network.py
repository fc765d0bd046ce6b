"""The target network is the trained network itself."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding

STRIKES = 3


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    for event in evidence.named("state-of-itself"):
        yield finding(
            "aliased-target-network",
            "established",
            f"{event.subject} loads its own weights{at(event.source)}: the network that is to be "
            "updated and the one that is trained are the same object",
            step=event.step,
            where=[event.source, *str(event.numbers.get("variables", "")).split(), event.subject],
            evidence={"tensors": event.numbers["tensors"], "times": event.count},
            advice="make the target network a copy: target = copy.deepcopy(online)",
        )
        return
    written = evidence.first("target-is-itself")
    if written is not None and written.count >= STRIKES:
        target, other = written.subject.split()[:2]
        yield finding(
            "aliased-target-network",
            "established",
            f"{target} and {other} are the same network: the program's own update of {target} "
            f"between the steps changes {other}, and the target is never behind it",
            step=written.step,
            where=[target, other, written.source],
            evidence={"updates": written.count, "steps": evidence.steps},
            advice=f"make {target} a copy: copy.deepcopy({other})",
        )
        return
    part = evidence.first("target-shares-part")
    if part is not None and part.count >= STRIKES:
        target, other = part.subject.split()[:2]
        shared_names = str(part.numbers["shared"]).split()
        yield finding(
            "aliased-target-network",
            "established",
            f"{target} and {other} share parameters such as {shared_names[0]}: the optimizer "
            f"trains them, while the program's own update changes the rest of {target}",
            step=part.step,
            where=[target, other, part.source, *(f"{target}.{each}" for each in shared_names)],
            evidence={"updates": part.count, "steps": evidence.steps},
            advice=f"give {target} a copy of what it shares: copy.deepcopy({other})",
        )
        return
    shared = evidence.first("target-shares")
    if shared is not None and evidence.steps > shared.step:
        target, other = shared.subject.split()[:2]
        yield finding(
            "aliased-target-network",
            "established",
            f"{target} is an object of its own, but its {shared.numbers['tensors']} parameters "
            f"have the memory of {other}: every step of the optimizer changes both",
            step=shared.step,
            where=[target, other],
            evidence={"shared_parameters": shared.numbers["tensors"], "steps": evidence.steps},
            advice=f"make {target} a deep copy: copy.deepcopy({other}); copy.copy() and "
            "target.data = other.data share the tensors",
        )


RULE = DiagnosisRule(
    "aliased-target-network",
    judge,
    "A copy that shares no memory with the network; a state kept for some steps, which "
    "aliased-best-state reports; one network under two names that only the optimizer changes; "
    "parts that are frozen, or shared while the program does not update the rest of the target.",
    explains=("frozen-bn-drift",),
)
