"""Several training processes: which one this is, and what they must agree on."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from torch import distributed

from sonde.train.checkpoint.checkpoint import can_resume, checkpoints_in

_SUFFIX = re.compile(r"_rank(\d+)(?=[-_])")


def rank_count() -> int:
    """The number of training processes."""
    return distributed.get_world_size() if _is_distributed() else 1


def rank() -> int:
    """The number of this training process."""
    return distributed.get_rank() if _is_distributed() else 0


def rank_suffix(number: int) -> str:
    """What rank ``number`` adds to the prefix of its checkpoints; nothing for rank 0."""
    return f"_rank{number}" if number else ""


def any_rank(flag: bool) -> bool:
    """Whether the flag is set on some rank; every rank must ask at the same place.

    A rank that stopped alone would leave the others waiting for its gradients forever.
    """
    return any(_gather(flag)) if rank_count() > 1 else flag


def newest_of_all_ranks(directory: Path) -> Path | None:
    """This rank's file of the newest step for which every rank has a good file.

    Every rank must call it: they exchange names and whether a file can be read.
    """
    own = {
        _SUFFIX.sub("", path.name): path
        for path in checkpoints_in(directory)
        if _rank_of(path) == rank()
    }
    everywhere = _gather(list(own))
    for name in everywhere[0]:  # rank 0's order: all ranks must try in the same one
        if all(name in names for names in everywhere) and all(_gather(can_resume(own[name]))):
            return own[name]
    return None


def _rank_of(path: Path) -> int:
    found = _SUFFIX.search(path.name)
    return int(found[1]) if found else 0


def _gather(value: Any) -> list[Any]:
    everyone: list[Any] = [None] * rank_count()
    distributed.all_gather_object(everyone, value)
    return everyone


def _is_distributed() -> bool:
    return distributed.is_available() and distributed.is_initialized()
