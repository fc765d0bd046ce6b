"""Random numbers of dropout: the same on ranks that drop replicated values, others on shards."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.text.rank_numbers import ranks_text
from sonde.ranks.check import Mismatch, StepCheck, finding
from sonde.ranks.job_step import JobStep, activations_by_name, split
from sonde.ranks.report import RankActivation


def judge(step: JobStep) -> Iterator[Mismatch]:
    for group in step.groups("tensor"):
        for name, known in activations_by_name(step, group).items():
            if not all(each.random_digest and each.input_digest for each in known.values()):
                continue
            states = split(known, key=lambda each: each.random_digest)
            inputs = split(known, key=lambda each: each.input_digest)
            if len(inputs) == 1 and len(states) > 1:
                yield _different(step, group, name, known, states)
                break
            if len(inputs) == len(group) and len(states) == 1:
                yield _equal(step, group, name, known)
                break


def _different(
    step: JobStep,
    group: tuple[int, ...],
    name: str,
    known: dict[int, RankActivation],
    sets: list[list[int]],
) -> Mismatch:
    return Mismatch(
        finding(
            "random-states-differ",
            "established",
            f"{ranks_text(sets[-1])} drew other random numbers than {ranks_text(sets[0])} for "
            f"{name}, which acts on values that these ranks replicate, in step {step.step}",
            step=step.step,
            ranks=sets[-1],
            evidence={
                "module": name,
                "states": {rank: f"{each.random_digest:016x}" for rank, each in known.items()},
            },
            advice="give the ranks of a tensor-parallel group the same random state where "
            "dropout acts on replicated values",
            places=(next(iter(known.values())).source or name,),
        ),
        subject=f"different {group}",
    )


def _equal(
    step: JobStep, group: tuple[int, ...], name: str, known: dict[int, RankActivation]
) -> Mismatch:
    return Mismatch(
        finding(
            "random-states-equal",
            "hypothesis",
            f"{ranks_text(group)} drew the same random numbers for {name}, which acts on a shard "
            "of its own on each of them: the shards are dropped at the same places",
            step=step.step,
            ranks=group,
            evidence={"module": name},
            advice="give each rank of a tensor-parallel group a random state of its own where "
            "dropout acts on shards",
            places=(next(iter(known.values())).source or name,),
        ),
        subject=f"equal {group}",
        strikes=3,
    )


CHECK = StepCheck(
    "random-states",
    judge,
    "Steps without dropout; dropout in compiled code, and by a function that the program imported "
    "by its name.",
    is_sampled=True,
    also=("random-states-differ", "random-states-equal"),
)
