"""One rank's loss or gradient norm is far from those of the others, again and again."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator

from sonde.ranks.check import Mismatch, StepCheck, finding
from sonde.ranks.job_step import JobStep

_FEWEST_RANKS = 4
_LIMIT = 8.0
_LEAST_SPREAD = 0.02
"""Of the median: ranks that agree better than that are not told apart."""


def judge(step: JobStep) -> Iterator[Mismatch]:
    for group in step.groups("data"):
        if len(group) < _FEWEST_RANKS or step.step < 0:
            continue
        local = {
            rank: math.sqrt(math.fsum(v * v for g in step.reports[rank].gradients for v in g.local))
            for rank in group
        }
        losses = {rank: step.reports[rank].loss for rank in group}
        for what, values in (("loss", losses), ("local gradient", local)):
            known = {rank: value for rank, value in values.items() if value}
            if len(known) == len(group) and all(map(math.isfinite, known.values())):
                yield from _odd(step, what, known)


def _odd(step: JobStep, what: str, values: dict[int, float]) -> Iterator[Mismatch]:
    median = statistics.median(values.values())
    spread = 1.48 * statistics.median(abs(value - median) for value in values.values())
    spread = max(spread, _LEAST_SPREAD * abs(median))
    for rank, value in values.items():
        score = abs(value - median) / spread if spread else 0.0
        if score > _LIMIT:
            yield Mismatch(
                finding(
                    "odd-rank-out",
                    "supported",
                    f"the {what} of rank {rank} is {value:.4g}, that of the other ranks around "
                    f"{median:.4g}, in step {step.step} and in later steps",
                    step=step.step,
                    ranks=(rank,),
                    evidence={"value": value, "median": median, "spread": spread, "score": score},
                    advice=f"look at the data of rank {rank}, then at its hardware: run the same "
                    "step on another rank",
                    places=(step.reports[rank].loss_source,),
                ),
                subject=f"{what} {rank}",
                strikes=3,
            )


CHECK = StepCheck(
    "odd-rank-out",
    judge,
    "Fewer than four ranks; fewer than three of ten steps.",
)
