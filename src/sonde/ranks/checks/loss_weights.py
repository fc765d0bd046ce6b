"""Each rank averages its loss over its own targets, and ranks have different numbers of them."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.ranks.check import Mismatch, StepCheck, finding
from sonde.ranks.job_step import JobStep

_RATIO = 1.1


def judge(step: JobStep) -> Iterator[Mismatch]:
    for group in step.groups("data"):
        reports = {rank: step.reports[rank] for rank in group}
        tokens = {rank: each.tokens for rank, each in reports.items() if each.tokens is not None}
        if len(tokens) < len(group) or any(each.is_loss_scaled for each in reports.values()):
            continue
        few, many = (choose(tokens, key=lambda rank: tokens[rank]) for choose in (min, max))
        if not tokens[few] or tokens[many] < _RATIO * tokens[few]:
            continue
        weight = tokens[many] / tokens[few]
        yield Mismatch(
            finding(
                "loss-weighted-by-rank",
                "supported",
                f"the loss is the mean over {tokens[few]} targets on rank {few} and over "
                f"{tokens[many]} on rank {many}, and gradients are averaged over ranks with equal "
                f"weight: a target on rank {few} counts {weight:.3g} times as much",
                step=step.step,
                ranks=(few,),
                evidence={"targets": tokens, "losses": {r: e.loss for r, e in reports.items()}},
                advice="sum the losses, and divide by the number of targets of all ranks "
                "(all_reduce the counts), times the number of ranks",
                places=(reports[few].loss_source,),
            ),
            subject=str(group),
            strikes=5,
        )


CHECK = StepCheck(
    "loss-weighted-by-rank",
    judge,
    "Numbers of targets within 10 %; a loss that the program scales itself.",
    is_sampled=True,
)
