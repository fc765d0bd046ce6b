"""One rank's numbers are far from those of the others, again and again."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sonde.ranks.check import Mismatch, StepCheck, finding
from sonde.ranks.job_step import JobStep
from sonde.ranks.options import FEWEST_FOR_OUTLIERS
from sonde.ranks.report import OutputStatistic

_LIMIT = 8.0
_LEAST_SPREAD = 0.02
"""Of the median: ranks that agree better than that are not told apart."""
_LEAST_OF_OUTPUT = 0.5
"""The same of the outputs of modules, which are many: one that is five times the median counts."""
_LEAST_OF_LARGEST = 2.0
"""The same of their largest elements, which scatter more."""


@dataclass(frozen=True, slots=True)
class _Number:
    """A number that every rank has: what it is, where, and the least spread that counts."""

    what: str
    values: Mapping[int, float | None]
    least_spread: float = _LEAST_SPREAD
    module: str = ""


def judge(step: JobStep) -> Iterator[Mismatch]:
    for group in step.groups("data"):
        if len(group) < FEWEST_FOR_OUTLIERS or step.step < 0:
            continue
        seen: set[int] = set()
        for number in (*_outputs(step, group), *_of_step(step, group)):
            for found in _odd(step, number):
                # What is odd first, in the order of the forward pass, is nearest to the cause.
                if found[0] not in seen:
                    seen.add(found[0])
                    yield _mismatch(step, number, *found)


def _of_step(step: JobStep, group: tuple[int, ...]) -> Iterator[_Number]:
    yield _Number("loss", {rank: step.reports[rank].loss for rank in group})
    yield _Number(
        "local gradient",
        {
            rank: math.sqrt(math.fsum(v * v for g in step.reports[rank].gradients for v in g.local))
            for rank in group
        },
    )


def _outputs(step: JobStep, group: tuple[int, ...]) -> Iterator[_Number]:
    """The outputs of the modules that all ranks of the group have alike."""
    known = {rank: {each.name: each for each in step.reports[rank].outputs} for rank in group}
    own = _modules_of_ranks(step, group)
    for name in known[group[0]]:
        found = {rank: each[name] for rank, each in known.items() if name in each}
        if len(found) == len(group) and name not in own:
            yield from _of_output(name, found)


def _of_output(name: str, found: dict[int, OutputStatistic]) -> Iterator[_Number]:
    of = f"of the output of {name}"
    sizes = {rank: each.root_mean_square for rank, each in found.items()}
    yield _Number(f"root mean square {of}", sizes, _LEAST_OF_OUTPUT, name)
    largest = {rank: each.largest for rank, each in found.items()}
    yield _Number(f"largest element {of}", largest, _LEAST_OF_LARGEST, name)


def _modules_of_ranks(step: JobStep, group: tuple[int, ...]) -> set[str]:
    """The modules with parameters that each rank has for itself, such as experts."""
    replicated = {
        placed.tensor.name
        for placed in step.placed("replicated")
        if set(group) <= set(placed.ranks) and step.is_replica(placed)
    }
    tensors = step.descriptions[group[0]].tensors
    return {
        each.name.rpartition(".")[0]
        for each in tensors
        if each.kind == "parameter"
        and each.name not in replicated
        and all(placement.kind != "sharded" for placement in each.placements)
    }


def _odd(step: JobStep, number: _Number) -> Iterator[tuple[int, float, float, float]]:
    """The ranks whose value is odd, with that, the median and the spread."""
    values = {rank: value for rank, value in number.values.items() if value}
    if len(values) < len(number.values) or not all(map(math.isfinite, values.values())):
        return
    median = statistics.median(values.values())
    spread = 1.48 * statistics.median(abs(value - median) for value in values.values())
    spread = max(spread, number.least_spread * abs(median))
    for rank, value in values.items():
        if spread and abs(value - median) > _LIMIT * spread:
            yield rank, value, median, spread


def _mismatch(
    step: JobStep, number: _Number, rank: int, value: float, median: float, spread: float
) -> Mismatch:
    return Mismatch(
        finding(
            "odd-rank-out",
            "supported",
            f"the {number.what} of rank {rank} is {value:.4g}, that of the other ranks around "
            f"{median:.4g}, in step {step.step} and in later steps",
            step=step.step,
            ranks=(rank,),
            evidence={
                "value": value,
                "median": median,
                "spread": spread,
                "score": abs(value - median) / spread,
            },
            advice=f"look at the data of rank {rank}, then at its hardware: run the same "
            "step on another rank",
            places=(step.reports[rank].loss_source, number.module),
        ),
        subject=f"rank {rank}",
        strikes=3,
    )


CHECK = StepCheck(
    "odd-rank-out",
    judge,
    "Fewer than four ranks; fewer than three of ten compared steps.",
    is_sampled=True,
)
