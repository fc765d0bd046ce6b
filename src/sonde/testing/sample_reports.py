"""The reports of simulated ranks: data-parallel replicas of which one parts from the others."""

from __future__ import annotations

from sonde.ranks.report import (
    Placement,
    RankDescription,
    RankReport,
    RankTensor,
    StepReport,
    encode,
)

PARTS_AT_STEP = 2
_WEIGHTS = ("embed.weight", "head.weight", "head.bias")


def odd_rank(world_size: int) -> int:
    """The rank whose weights differ from step 2 on."""
    return min(5, world_size - 1)


def sample_reports(rank: int, world_size: int, step: int) -> bytes:
    """What ``rank`` reports when ``step`` has ended; at step 0 also its description."""
    reports: list[RankReport] = []
    if step == 0:
        placement = (Placement("world", "replicated"),)
        tensors = tuple(RankTensor(e, "parameter", (8, 8), "float32", placement) for e in _WEIGHTS)
        groups = {"world": tuple(range(world_size))}
        reports.append(
            RankDescription(rank, world_size, groups, {"world": "data"}, tensors, {"torch": "2"})
        )
        reports.append(StepReport(rank, -1, (1, 2, 3)))
    is_odd = rank == odd_rank(world_size) and step >= PARTS_AT_STEP
    digests = (10 * step + 1, 10 * step + 2, 10 * step + (9 if is_odd else 3))
    reports.append(
        StepReport(
            rank,
            step,
            digests,
            decisions={"learning rate": "0.1"},
            loss=1.0 / (step + 1),
            batch_digest=1000 * step + rank + 1,
            source="train.py:20",
        )
    )
    return encode(tuple(reports))
