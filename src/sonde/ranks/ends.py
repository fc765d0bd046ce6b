"""How the ranks of a job have ended, and which of them ended the job."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

TOGETHER_SECONDS: Final = 0.1
"""Ends that are noticed within this time have no order: the process that notices them may not have
run for a while, and a launcher looks at its ranks this often."""
INTERRUPTED: Final = "KeyboardInterrupt"


@dataclass(frozen=True, slots=True)
class RaisedError:
    """The exception that ended the training of a rank: its class, what it says, and the line of the
    program, empty if that is not known."""

    kind: str
    text: str = ""
    source: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}" if self.text else self.kind


@dataclass(frozen=True, slots=True)
class RankEnd:
    """``seconds``: when it was noticed, by any clock. ``is_lost``: the process has ended without
    saying so. Neither lost nor with an ``error``: the rank has done its work."""

    rank: int
    seconds: float
    is_lost: bool = False
    error: RaisedError | None = None

    @property
    def is_orderly(self) -> bool:
        return not self.is_lost and self.error is None


class RankEnds:
    """The ranks that have ended. Used from one thread."""

    def __init__(self) -> None:
        self._ends: dict[int, RankEnd] = {}

    def __contains__(self, rank: object) -> bool:
        return rank in self._ends

    def end(self, rank: int, error: RaisedError | None, seconds: float) -> None:
        """A rank has sent its last report."""
        self._ends.setdefault(rank, RankEnd(rank, seconds, error=error))

    def lose(self, rank: int, seconds: float) -> None:
        """The connection of a rank is gone; nothing new if the rank has said that it ends."""
        self._ends.setdefault(rank, RankEnd(rank, seconds, is_lost=True))

    def resume(self, rank: int) -> None:
        """A rank is connected again, or a new process has taken its place."""
        self._ends.pop(rank, None)

    def first_stopped(
        self, steps: Mapping[int, int], *, is_over: bool, awaited: Collection[int] = ()
    ) -> RankEnd | None:
        """The rank that stopped while the others would have gone on: they lose it, or are ended by
        a launcher, after it. ``steps``: the last step that each rank ended. ``is_over``: all ranks
        have ended; until then an exception counts for nothing, because every rank may raise it.
        ``awaited``: the ranks that others wait for in a collective. None if no rank stopped before
        the others."""
        failed = [each for each in self._ends.values() if each.is_lost or (is_over and each.error)]
        if not failed or self._have_failed_alike():
            return None
        begin = min(each.seconds for each in failed)
        together = [each for each in failed if each.seconds <= begin + TOGETHER_SECONDS]
        # Of ends without an order, one that was not announced is the cause of an exception.
        first = min(
            together,
            key=lambda each: (not each.is_lost, steps.get(each.rank, -1), each.seconds),
        )
        if is_over and self._have_all_done(first, steps):
            return None
        return self._left_before(first, awaited) or first

    def _left_before(self, failed: RankEnd, awaited: Collection[int]) -> RankEnd | None:
        """The rank that had left its loop in order, and for which a rank that failed waited."""
        left = [each for each in self._ends.values() if each.is_orderly and each.rank in awaited]
        before = [each for each in left if each.seconds <= failed.seconds]
        return min(before, key=lambda each: each.seconds, default=None)

    def _have_failed_alike(self) -> bool:
        """Whether a user interrupted the job, or all ranks raise the same at the same line."""
        errors = [each.error for each in self._ends.values()]
        if any(each is not None and each.kind == INTERRUPTED for each in errors):
            return True
        kinds = {None if each is None else (each.kind, each.source) for each in errors}
        return len(kinds) == 1 and None not in kinds

    def _have_all_done(self, end: RankEnd, steps: Mapping[int, int]) -> bool:
        """Whether a lost rank had done as many steps as the others, which have done their work: a
        program may leave with ``os._exit`` when all is done."""
        others = [each for each in self._ends.values() if each is not end]
        last = steps.get(end.rank, -1)
        return end.is_lost and all(
            each.is_orderly and steps.get(each.rank, -1) <= last for each in others
        )
