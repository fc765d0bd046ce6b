"""The hits of a rank: numbered, bounded, remembered."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from sonde.watch.origins import Origin
from sonde.wire.shapes import Hit

MOST_PER_STEP: Final = 1000
"""Hits of one watchpoint in one step that are sent one by one; the others are counted."""
MOST_REMEMBERED: Final = 10_000
REMINDED_AFTER: Final = 100
"""Steps after which it is said again that something cannot be decided."""

_COUNTS: Final = re.compile(r"\d+ (NaN|[+-]Inf)\b.*")

Key = tuple[int, str, str]
"""Watchpoint, condition, reason."""


class HitCollector:
    """Collects hits until they are sent. Used from the training thread only."""

    def __init__(self) -> None:
        self._next = 0
        self._waiting: list[Hit] = []
        self._in_step: dict[int, int] = {}
        self._surplus: dict[Key, Hit] = {}
        self._undecided: dict[Key, Hit] = {}
        self._told: dict[Key, int] = {}
        self._told_before: set[tuple[object, ...]] = set()
        # Hits of this step that are none should their origin turn out to be no fault.
        self._provisional: list[tuple[Origin, Hit]] = []
        self._provisional_surplus: list[tuple[Origin, Key]] = []
        self.remembered: list[Hit] = []
        self.totals: dict[int, int] = {}

    def add(self, hit: Hit, origin: Origin | None = None) -> int:
        """Take ``hit``, whose number is given here; how many its watchpoint has had so far.

        ``origin``: where its values come from; ``settle`` takes the hit back unless it is a fault.

        What cannot be decided is told once for each reason, with a count, and again when it still
        cannot after many steps.
        """
        if hit.verdict == "undecided":
            self._count(self._undecided, (hit.watchpoint, hit.condition, _reason(hit.why)), hit)
            return self.totals.get(hit.watchpoint, 0)
        total = self.totals[hit.watchpoint] = self.totals.get(hit.watchpoint, 0) + 1
        here = self._in_step[hit.watchpoint] = self._in_step.get(hit.watchpoint, 0) + 1
        if _place(hit) in self._told_before:
            return total  # Somebody asked about it before the step came there.
        if here > MOST_PER_STEP:
            key = (hit.watchpoint, hit.condition, "")
            self._count(self._surplus, key, hit)
            if origin is not None and not origin.is_fault:
                self._provisional_surplus.append((origin, key))
        else:
            numbered = self._numbered(hit)
            self._waiting.append(numbered)
            if origin is not None and not origin.is_fault:
                self._provisional.append((origin, numbered))
        return total

    def add_undecided(self, hit: Hit, why: str) -> None:
        self.add(msgspec.structs.replace(hit, verdict="undecided", why=why))

    def settle(self, excuse: Callable[[Origin], str]) -> None:
        """Take back the hits of origins that are no fault. One that was sent already is sent
        again as undecided, under the same number."""
        waiting = {hit.number for hit in self._waiting}
        dropped: set[int] = set()
        for origin, hit in self._provisional:
            if origin.is_fault:
                continue
            self.totals[hit.watchpoint] -= 1
            if hit.number in waiting:
                dropped.add(hit.number)
                self.add_undecided(hit, excuse(origin))
            else:
                why = excuse(origin)
                self._waiting.append(msgspec.structs.replace(hit, verdict="undecided", why=why))
        self._waiting = [hit for hit in self._waiting if hit.number not in dropped]
        self._provisional.clear()
        self._settle_surplus()

    def _settle_surplus(self) -> None:
        """Take back hits that were only counted, of origins that are no fault."""
        for origin, key in self._provisional_surplus:
            if origin.is_fault:
                continue
            self.totals[key[0]] -= 1
            counted = self._surplus.pop(key)
            if counted.count > 1:
                self._surplus[key] = msgspec.structs.replace(counted, count=counted.count - 1)
        self._provisional_surplus.clear()

    def tell(self, hits: Iterable[Hit]) -> int:
        """Have those told at once that are not listed yet, undecided ones, too; how many hits are
        new. They are not counted among those that stop the training."""
        known = {_place(each) for each in (*self.remembered, *self._waiting)}
        told: Counter[int] = Counter()
        new = 0
        for hit in hits:
            if _place(hit) in known:
                continue
            new += hit.verdict == "hit"
            told[hit.watchpoint] += 1
            self._told_before.add(_place(hit))
            if told[hit.watchpoint] > MOST_PER_STEP:
                self._count(self._surplus, (hit.watchpoint, hit.condition, ""), hit)
            else:
                self._waiting.append(self._numbered(hit))
        return new

    def take(self) -> Sequence[Hit]:
        """Those that were not taken yet, in order."""
        taken, self._waiting = self._waiting, []
        self.remembered += taken
        del self.remembered[:-MOST_REMEMBERED]
        return taken

    def end_step(self) -> None:
        """What was only counted becomes a hit of its own."""
        for key, hit in list(self._undecided.items()):
            if hit.step >= self._told.get(key, -REMINDED_AFTER) + REMINDED_AFTER:
                self._told[key] = hit.step
                self._waiting.append(self._numbered(hit))
        self._waiting += map(self._numbered, self._surplus.values())
        self._undecided.clear()
        self._surplus.clear()
        self._in_step.clear()
        self._told_before.clear()

    def forget(self, watchpoint: int) -> None:
        """The watchpoint was changed: its hits count from none."""
        self.totals.pop(watchpoint, None)
        self._told = {key: step for key, step in self._told.items() if key[0] != watchpoint}

    def _numbered(self, hit: Hit) -> Hit:
        self._next += 1
        return msgspec.structs.replace(hit, number=self._next - 1)

    @staticmethod
    def _count(book: dict[Key, Hit], key: Key, hit: Hit) -> None:
        known = book.get(key)
        if known is None:
            book[key] = hit
        else:
            book[key] = msgspec.structs.replace(known, count=known.count + 1)


def _reason(why: str) -> str:
    """Without the numbers: that there are NaN in the way is one reason, however many."""
    return _COUNTS.sub("", why)


def _place(hit: Hit) -> tuple[object, ...]:
    """What was asked of which tensor, in which step, and whether that could be decided."""
    return (hit.watchpoint, hit.condition, hit.op, hit.io, hit.slot, hit.step, hit.verdict)
