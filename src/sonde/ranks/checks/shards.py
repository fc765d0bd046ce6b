"""Shards of one weight are copies of each other: the ranks drew the same random numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator

from sonde.core.text.rank_numbers import ranks_text
from sonde.ranks.check import Mismatch, StepCheck, finding
from sonde.ranks.job_step import JobStep, split

_FEWEST_ELEMENTS = 9


def judge(step: JobStep) -> Iterator[Mismatch]:
    if step.step >= 0:
        return
    table = step.digests
    equal: dict[tuple[int, ...], list[str]] = {}
    total = 0
    group = ""
    for placed in step.placed("sharded"):
        tensor = placed.tensor
        if tensor.kind != "parameter" or math.prod(tensor.shape) < _FEWEST_ELEMENTS:
            continue
        digests = {
            rank: digest
            for rank, digest in table.of(tensor.name, placed.ranks).items()
            if not table.is_constant(tensor.name, rank)
        }
        if len(digests) < 2:
            continue
        total += 1
        same = split(digests)[0]
        if len(same) > 1:
            equal.setdefault(tuple(same), []).append(tensor.name)
            group = placed.group
    for ranks, names in equal.items():
        yield Mismatch(
            finding(
                "shards-equal",
                "established",
                f"{ranks_text(ranks)} hold identical shards of {names[0]}: {len(names)} of {total} "
                f"sharded weights are the same on the ranks of {group}",
                step=0,
                ranks=ranks,
                evidence={"tensors": names[:20], "equal": len(names), "compared": total},
                advice="make the shards from one random tensor, or give each rank of the group a "
                "seed of its own while weights are initialised",
                places=(names[0],),
                parameter=names[0],
            ),
            subject=str(ranks),
        )


CHECK = StepCheck(
    "shards-equal",
    judge,
    "Constant shards (zeros, ones), and shards of fewer than 9 elements.",
    is_sampled=True,
)
