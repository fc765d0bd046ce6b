"""Ranks that should train on different data get the same batches."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.text.rank_numbers import ranks_text
from sonde.ranks.check import Mismatch, StepCheck, finding
from sonde.ranks.job_step import JobStep, split


def judge(step: JobStep) -> Iterator[Mismatch]:
    before = {} if step.previous is None else step.previous.reports
    for group in step.groups("data"):
        digests = {rank: step.reports[rank].batch_digest for rank in group}
        if any(
            rank in before and before[rank].batch_digest == digest
            for rank, digest in digests.items()
        ):
            continue  # A fixed batch in every step: a test or an overfit on purpose.
        known = {rank: digest for rank, digest in digests.items() if digest}
        ranks = split(known)[0] if known else []
        if len(ranks) < 2 or not step.has_roles:
            continue
        yield Mismatch(
            finding(
                "same-batch-on-ranks",
                "established",
                f"{ranks_text(ranks)} got the same batch in step {step.step} and in later steps: "
                "they compute the same gradients",
                step=step.step,
                ranks=ranks,
                evidence={"batch": f"{known[ranks[0]]:016x}"},
                advice="give the DataLoader a DistributedSampler, or each rank its own part",
                places=(step.reports[ranks[0]].loss_source,),
            ),
            subject=str(tuple(ranks)),
            strikes=3,
        )


CHECK = StepCheck(
    "same-batch-on-ranks",
    judge,
    "Ranks of tensor or pipeline parallelism, or whose parallelism is unknown; a batch that does "
    "not change from step to step.",
)
