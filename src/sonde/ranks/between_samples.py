"""The steps between two compared ones: after which of them were replicas no longer the same?

In a compared step all elements are hashed. After every step each rank hashes a few elements of each
replicated parameter, and sends these hashes from time to time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from msgspec.structs import replace

from sonde.ranks.report import RankDescription, RankTensor, SpotDigests, SpotReport

MOST_KEPT: Final = 32
"""Steps for which a rank keeps hashes; of more, every second, fourth, ... is kept."""
_MOST_WAITING: Final = 4 * MOST_KEPT
"""Of one rank, which may be ahead of others."""


class SpotLog:
    """What the ranks of a job have sent since the last step in which all were compared. Steps are
    counted from the first of this run."""

    def __init__(self) -> None:
        self._known: dict[int, list[SpotDigests]] = {}

    def add(self, report: SpotReport) -> None:
        known = [*self._known.get(report.rank, ()), *report.steps]
        self._known[report.rank] = thinned(known, _MOST_WAITING)

    def before(self, step: int | None = None, *, first: int = 0) -> dict[int, list[SpotDigests]]:
        """By rank, those of the steps before ``step``; None: all. ``first``: the number that the
        first step of this run has in what is returned."""
        return {
            rank: [
                replace(each, step=each.step + first)
                for each in known
                if step is None or each.step < step
            ]
            for rank, known in self._known.items()
        }

    def forget(self, step: int) -> None:
        """All ranks were compared in ``step``."""
        self._known = {
            rank: [each for each in known if each.step > step]
            for rank, known in self._known.items()
        }


def spot_names(description: RankDescription) -> list[str]:
    """The parameters that have such hashes, in their order."""
    return [each.name for each in description.tensors if has_spots(each)]


def has_spots(tensor: RankTensor) -> bool:
    """Whether a tensor has such hashes: parameters that are replicated over some group."""
    return tensor.kind == "parameter" and any(e.kind == "replicated" for e in tensor.placements)


def thinned(kept: Sequence[SpotDigests], most: int = MOST_KEPT) -> list[SpotDigests]:
    """At most ``most`` of them: those of steps that are multiples of a power of two, which are
    the same steps on all ranks."""
    found, spacing = list(kept), 1
    while len(found) > most:
        spacing *= 2
        found = [each for each in kept if each.step % spacing == 0]
    return found


def steps_of_all(
    between: Mapping[int, Sequence[SpotDigests]], ranks: Sequence[int], after: int
) -> list[int]:
    """The steps after ``after`` that all ``ranks`` have, in their order."""
    known = [{each.step for each in between.get(rank, ())} for rank in ranks]
    return sorted(step for step in set.intersection(*known) if step > after) if known else []


def spot_table(
    between: Mapping[int, Sequence[SpotDigests]],
    descriptions: Mapping[int, RankDescription],
    ranks: Sequence[int],
    step: int,
) -> dict[str, dict[int, int]]:
    """The hashes of ``step`` by parameter, then by rank; without those that are 0."""
    found: dict[str, dict[int, int]] = {}
    for rank in ranks:
        data = next((e.digests for e in between.get(rank, ()) if e.step == step), b"")
        digests = np.frombuffer(data, "<u8", count=len(data) // 8).tolist()
        for name, digest in zip(spot_names(descriptions[rank]), digests, strict=False):
            if digest:
                found.setdefault(name, {})[rank] = digest
    return found
