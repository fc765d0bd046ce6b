"""Communication between the ranks of a distributed training."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from torch import Tensor, distributed

from sonde.train.checkpoint.checkpoint import can_resume, checkpoints_in

_SUFFIX = re.compile(r"_rank(\d+)(?=[-_])")


def rank_count() -> int:
    """The number of ranks; 1 outside distributed training."""
    return distributed.get_world_size() if _is_distributed() else 1


def rank() -> int:
    """The rank of this process; 0 outside distributed training."""
    return distributed.get_rank() if _is_distributed() else 0


def rank_suffix(number: int) -> str:
    """The suffix of the prefix of this rank's checkpoints; empty for rank 0."""
    return f"_rank{number}" if number else ""


def is_sharded(value: Any) -> bool:
    """Whether it is a DTensor, of which each rank holds a part; its module is not imported."""
    return isinstance(value, Tensor) and hasattr(value, "to_local")


def any_rank(flag: bool) -> bool:
    """Whether the flag is set on any rank; every rank must call it at the same place.

    If a single rank stopped, the others would wait for its gradients forever.
    """
    return any(gather(flag))


def gather(value: Any) -> list[Any]:
    """The value of every rank, in rank order; every rank must call it at the same place."""
    if rank_count() == 1:
        return [value]
    values: list[Any] = [None] * rank_count()
    distributed.all_gather_object(values, value)
    return values


def newest_of_all_ranks(directory: Path) -> Path | None:
    """This rank's file of the newest step for which every rank has a readable file.

    Every rank must call it: the ranks exchange file names, and whether a file can be read.
    """
    own = {
        _SUFFIX.sub("", path.name): path
        for path in checkpoints_in(directory)
        if _rank_of(path) == rank()
    }
    everywhere = gather(list(own))
    for name in everywhere[0]:  # in rank 0's order, because all ranks must try in the same order
        if all(name in names for names in everywhere) and all(gather(can_resume(own[name]))):
            return own[name]
    return None


def _rank_of(path: Path) -> int:
    found = _SUFFIX.search(path.name)
    return int(found[1]) if found else 0


def _is_distributed() -> bool:
    return distributed.is_available() and distributed.is_initialized()
