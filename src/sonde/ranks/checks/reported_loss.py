"""The loss that a program reports for all ranks is not the mean over all targets."""

from __future__ import annotations

import math
from collections.abc import Iterator

from sonde.ranks.check import Mismatch, StepCheck, finding
from sonde.ranks.job_step import JobStep

_TOLERANCE = 1e-5


def judge(step: JobStep) -> Iterator[Mismatch]:
    for group in step.groups("data"):
        given = [each for rank in group if (each := step.reports[rank].reported) is not None]
        if len(given) < len(group) or not all(each.tokens for each in given):
            continue
        reported = given[0]
        total = sum(each.tokens or 0 for each in given)
        expected = math.fsum(each.loss * (each.tokens or 0) for each in given) / total
        plain = math.fsum(each.loss for each in given) / len(given)
        if not math.isfinite(reported.value) or _is_near(reported.value, expected):
            continue
        if not _is_near(reported.value, plain):
            continue  # The program reports something else: a part of the loss, a running mean.
        tokens = {rank: each.tokens for rank, each in zip(group, given, strict=True)}
        yield Mismatch(
            finding(
                "loss-not-of-all-targets",
                "established",
                f"the loss that the program reduces at {reported.source} in step {step.step} is "
                f"{reported.value:.6g}, the mean over ranks; over all {total} targets it is "
                f"{expected:.6g}, because ranks have different numbers of them",
                step=step.step,
                ranks=group,
                evidence={"reported": reported.value, "expected": expected, "targets": tokens},
                advice="all_reduce the sum of the losses and the number of targets, and divide",
                places=(reported.source,),
            ),
            subject=str(group),
            strikes=2,
        )


def _is_near(value: float, other: float) -> bool:
    return abs(value - other) <= _TOLERANCE * max(abs(value), abs(other))


CHECK = StepCheck(
    "loss-not-of-all-targets",
    judge,
    "Losses that are not cross entropies with a mean, or that the program does not all_reduce.",
    is_sampled=True,
)
