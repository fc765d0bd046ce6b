"""Outputs of modules that tensor-parallel ranks should have in common differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sonde.core.text.rank_numbers import ranks_text
from sonde.ranks.check import Mismatch, StepCheck, finding
from sonde.ranks.job_step import JobStep, activations_by_name, split
from sonde.ranks.report import RankActivation


def judge(step: JobStep) -> Iterator[Mismatch]:
    """The first output in forward order that differs. Where the program does not say that ranks
    have it in common, it must have been the same in the compared step before."""
    for group in step.groups("tensor"):
        before = _equal_before(step, group)
        for name, known in activations_by_name(step, group).items():
            is_declared = all(each.is_declared for each in known.values())
            sets = split(known, key=lambda each: each.digest)
            if len(sets) > 1 and (is_declared or name in before):
                yield _mismatch(step, group, name, sets, is_declared=is_declared)
                break


def first_unreduced(step: JobStep, group: tuple[int, ...]) -> str:
    """The last module in forward order, so the first in backward order, whose output is the same on
    all ranks of ``group`` while its gradient is not; empty without one."""
    found = ""
    for name, known in activations_by_name(step, group).items():
        if not all(each.gradient for each in known.values()):
            continue
        if _is_equal(known) and len(split(known, key=lambda each: each.gradient)) > 1:
            found = name
    return found


def _equal_before(step: JobStep, group: tuple[int, ...]) -> frozenset[str]:
    previous = step.previous
    if previous is None or any(rank not in previous.reports for rank in group):
        return frozenset()
    known = activations_by_name(previous, group)
    return frozenset(name for name, each in known.items() if _is_equal(each))


def _is_equal(known: Mapping[int, RankActivation]) -> bool:
    return len(split(known, key=lambda each: each.digest)) == 1


def _mismatch(
    step: JobStep, group: tuple[int, ...], name: str, sets: list[list[int]], *, is_declared: bool
) -> Mismatch:
    few = sets[-1]
    since = (
        ""
        if is_declared or step.previous is None
        else (f"; it was the same on all of them in step {step.previous.step}")
    )
    return Mismatch(
        finding(
            "replicated-activations-differ",
            "established" if is_declared else "supported",
            f"{ranks_text(few)} {'has' if len(few) == 1 else 'have'} another output of {name} than "
            f"{ranks_text(sets[0])} in step {step.step}{since}",
            step=step.step,
            ranks=few,
            evidence={"module": name, "sets": sets, "group_ranks": list(group)},
            advice=f"look at what {name} and the ops before it compute with: other weights, other "
            "random numbers, a missing all_reduce",
            places=(name,),
        ),
        subject=str(group),
        strikes=2,
        explained_by=frozenset(
            {
                "random-states-differ",
                "ranks-differ-at-init",
                "replicas-differ",
                "replicated-gradient-not-reduced",
                "tensor-ranks-batches-differ",
            }
        ),
    )


CHECK = StepCheck(
    "replicated-activations-differ",
    judge,
    "Groups that are not known to be tensor-parallel; outputs that were never the same.",
    is_sampled=True,
)
