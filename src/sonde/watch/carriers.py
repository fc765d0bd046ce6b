"""Counts the tensors that receive NaN or Inf from a known origin again in every later step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Generic, TypeVar

MOST_CARRIERS: Final = 100_000

CarrierKey = tuple[str, int, str, str, int]
"""The op of the origin, the watchpoint, and the tensor: op, io, slot."""
Result = TypeVar("Result")


@dataclass(slots=True)
class _Carrier(Generic[Result]):
    first: Result
    step: int
    count: int = 1


class CarrierCounts(Generic[Result]):
    """The first result of every carrier; the same in later steps is only counted. Used from one
    thread.

    A weight that became NaN makes all values of all later steps NaN. Each of them as a hit of its
    own would say nothing new, and slow down the training and the server. Counts that changed are
    due to be reported when they have doubled, so that a long run has few reports.
    """

    def __init__(self) -> None:
        self._carriers: dict[CarrierKey, _Carrier[Result]] = {}
        self._changed: dict[CarrierKey, None] = {}
        self._unreported = self._reported = 0

    def note(self, key: CarrierKey, step: int, first: Result) -> None:
        """``first`` is the result of a carrier in ``step``."""
        if len(self._carriers) >= MOST_CARRIERS:  # Names that differ in every step.
            self._carriers.clear()
            self._changed.clear()
        self._carriers[key] = _Carrier(first, step)

    def count(self, key: CarrierKey, step: int) -> bool:
        """Count the result of a carrier in ``step``; False if it has none of an earlier step."""
        known = self._carriers.get(key)
        if known is None or known.step >= step:
            return False
        known.count += 1
        self._changed[key] = None
        self._unreported += 1
        return True

    def is_due(self) -> bool:
        """Whether the counts have doubled since they were last reported."""
        return self._unreported > self._reported

    def take(self) -> list[tuple[Result, int]]:
        """The results whose count has changed since the last call, with the count."""
        changed, self._changed = self._changed, {}
        self._reported += self._unreported
        self._unreported = 0
        return [(each.first, each.count) for each in map(self._carriers.__getitem__, changed)]

    def forget(self, watchpoint: int) -> None:
        """Begin anew with a watchpoint that was changed."""
        self._carriers = {k: each for k, each in self._carriers.items() if k[1] != watchpoint}
        self._changed = {k: None for k in self._changed if k in self._carriers}
