"""Pairs of trainings: one with a bug, and its healthy counterpart, which differs in one place."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Pair:
    """A training with a bug of this kind; without ``wrong``, in whose place stands ``right``, it is
    healthy. ``status``: the least certain status that the finding may have."""

    kind: str
    code: str
    wrong: str
    right: str
    status: str = "supported"

    @property
    def healthy(self) -> str:
        assert self.wrong in self.code, f"{self.kind}: no {self.wrong!r} in the training"
        return self.code.replace(self.wrong, self.right)
