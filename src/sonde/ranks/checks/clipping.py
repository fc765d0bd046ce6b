"""Ranks clip gradients differently: only some of them, or by different norms."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.ranks.check import Mismatch, StepCheck, finding
from sonde.ranks.job_step import JobStep, ranks_text, split

_TOLERANCE = 1e-5


def judge(step: JobStep) -> Iterator[Mismatch]:
    for group in (*step.groups("data"), *step.groups("tensor")):
        calls = {rank: len(step.reports[rank].clips) for rank in group}
        sets = split(calls)
        if len(sets) > 1:
            yield _called(step, group, calls, sets)
            continue
        for number in range(calls[group[0]]):
            norms = {rank: step.reports[rank].clips[number].norm for rank in group}
            least, most = min(norms.values()), max(norms.values())
            if most - least > _TOLERANCE * abs(most):
                yield _different(step, group, norms, number)
                break


def _called(
    step: JobStep, group: tuple[int, ...], calls: dict[int, int], sets: list[list[int]]
) -> Mismatch:
    few = sets[-1]
    clipping = max(group, key=lambda rank: calls[rank])
    line = step.reports[clipping].clips[0].source
    fewest = min(calls.values())
    return Mismatch(
        finding(
            "clip-on-some-ranks",
            "established",
            f"gradients are clipped at {line} on rank {clipping} ({_times(calls[clipping])} in "
            f"step {step.step}), and {_times(fewest) if fewest else 'not'} on "
            f"{ranks_text(rank for rank in group if calls[rank] == fewest)}",
            step=step.step,
            ranks=few,
            evidence={"calls": calls},
            advice=f"clip on every rank: take the call at {line} out of the condition",
            places=(line,),
        ),
        subject=f"calls {group}",
        strikes=2,
    )


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _different(
    step: JobStep, group: tuple[int, ...], norms: dict[int, float], number: int
) -> Mismatch:
    line = step.reports[group[0]].clips[number].source
    sets = split(norms)
    listed = ", ".join(f"rank {rank}: {norm:.6g}" for rank, norm in list(norms.items())[:4])
    return Mismatch(
        finding(
            "clip-norms-differ",
            "established",
            f"the ranks clip gradients at {line} by different norms in step {step.step} "
            f"({listed}), so each scales its gradients by another factor",
            step=step.step,
            ranks=sets[-1],
            evidence={"norms": norms},
            advice="compute the norm over all ranks, each shard once, before clipping; clip after "
            "the gradients were exchanged",
            places=(line,),
        ),
        subject=f"norms {group} {line}",
        strikes=2,
    )


CHECK = StepCheck(
    "clipping", judge, "Norms that agree to 1e-5.", also=("clip-on-some-ranks", "clip-norms-differ")
)
