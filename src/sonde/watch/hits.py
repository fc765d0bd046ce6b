"""The hits of watchpoints on one rank: what a hit is, and their numbering and limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from sonde.core.finding import Finding
from sonde.core.keys import TensorKey
from sonde.watch.carriers import CarrierCounts, CarrierKey
from sonde.watch.conditions import Reason, ReasonCode, Value
from sonde.watch.headline import Headline
from sonde.watch.hit_text import why_harmless
from sonde.watch.origins import Origin

MOST_PER_STEP: Final = 1000
"""Hits of one watchpoint in one step that are reported one by one; the others are counted."""
MOST_REMEMBERED: Final = 10_000
REMINDED_AFTER: Final = 100
"""Steps after which a result that is still undecided is reported again."""

Part = Literal["producer", "carrier", "other"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchpointHit(Finding):
    """A tensor on which a watchpoint was met, or could not be decided.

    ``rule`` has the ids of the conditions. ``part``: whether the op produced the non-finite values
    or passed them on; ``origin`` is the op that produced them, ``chain`` the ops from there to this
    one. ``headline`` is the sentence about the origin, or about the number found. ``reason`` is set
    if the verdict is "undecided". ``number`` counts the hits of a rank, from 0. ``count``: the
    number of hits that it represents.
    """

    where: TensorKey
    watchpoint: int
    dtype: str
    shape: tuple[int, ...]
    verdict: Literal["hit", "undecided"]
    values: tuple[Value, ...] = ()
    reason: Reason | None = None
    part: Part = "other"
    origin: str | None = None
    chain: tuple[str, ...] = ()
    headline: Headline | None = None
    number: int = 0
    count: int = 1

    def as_undecided(self, code: ReasonCode, why: str) -> WatchpointHit:
        return replace(
            self,
            verdict="undecided",
            severity="info",
            status="hypothesis",
            message=why,
            reason=Reason(code, why),
        )

    def withdrawn(self, origin: Origin) -> WatchpointHit:
        """The hit of an ``origin`` that is no fault, as an undecided result."""
        return self.as_undecided("not_a_fault", why_harmless(origin))


Group = tuple[int, str, Reason | None]
"""Watchpoint, rule, reason."""


class HitCollector:
    """Collects hits until they are sent. Used from one thread."""

    def __init__(self) -> None:
        self._next = 0
        self._waiting: list[WatchpointHit] = []
        self._in_step: Counter[int] = Counter()
        self._surplus: dict[Group, WatchpointHit] = {}
        self._undecided: dict[Group, WatchpointHit] = {}
        # The step in which an undecided group was last reported.
        self._reported: dict[Group, int] = {}
        # Results of this step that a check at a pause has reported already.
        self._checked: set[tuple[object, ...]] = set()
        # Hits of this step that are withdrawn unless their origin turns out to be a fault.
        self._provisional: list[tuple[Origin, WatchpointHit]] = []
        self._provisional_surplus: list[tuple[Origin, Group]] = []
        self._carriers = CarrierCounts[WatchpointHit]()
        self.remembered: list[WatchpointHit] = []
        self.totals: Counter[int] = Counter()

    def add(self, hit: WatchpointHit, origin: Origin | None = None) -> int:
        """Add ``hit``, which gets its number here; return the number of hits of its watchpoint.

        ``origin``: where its values come from; ``end_ops`` withdraws the hit unless that is a
        fault. Undecided results are reported at the end of the step, one per reason with a count,
        and again after ``REMINDED_AFTER`` steps.
        """
        if hit.verdict == "undecided":
            _count(self._undecided, (hit.watchpoint, hit.rule, hit.reason), hit)
            return self.totals[hit.watchpoint]
        self.totals[hit.watchpoint] += 1
        self._in_step[hit.watchpoint] += 1
        total = self.totals[hit.watchpoint]
        is_provisional = origin is not None and not origin.is_fault
        if _identity(hit) in self._checked:
            return total
        if self._in_step[hit.watchpoint] > MOST_PER_STEP:
            group = (hit.watchpoint, hit.rule, None)
            _count(self._surplus, group, hit)
            if origin is not None and is_provisional:
                self._provisional_surplus.append((origin, group))
        else:
            numbered = self._numbered(hit)
            self._waiting.append(numbered)
            if origin is not None and is_provisional:
                self._provisional.append((origin, numbered))
            elif origin is not None:
                self._note_carrier(numbered, origin)
        return total

    def _note_carrier(self, hit: WatchpointHit, origin: Origin) -> None:
        if hit.part == "carrier":
            place = (hit.where.op, hit.where.io, hit.where.slot)
            self._carriers.note((origin.op, hit.watchpoint, *place), hit.where.step, hit)

    def count_carrier(self, carrier: CarrierKey, step: int) -> bool:
        """Count the hit of a tensor whose NaN and Inf come from the same origin as in an earlier
        step, instead of adding it; False if it is to be added."""
        if not self._carriers.count(carrier, step):
            return False
        self.totals[carrier[1]] += 1
        return True

    def report_counts(self) -> None:
        """Send the counts of carriers with the next hits."""
        counted = (replace(hit, count=count) for hit, count in self._carriers.take())
        self._waiting += sorted(counted, key=lambda hit: hit.number)

    def end_ops(self) -> None:
        """Withdraw the hits whose origins are no fault. A hit that was sent already is sent again
        as undecided, with the same number."""
        waiting = {hit.number for hit in self._waiting}
        dropped: set[int] = set()
        for origin, hit in self._provisional:
            if origin.is_fault:
                self._note_carrier(hit, origin)
                continue
            self.totals[hit.watchpoint] -= 1
            if hit.number in waiting:
                dropped.add(hit.number)
                self.add(hit.withdrawn(origin))
            else:
                self._waiting.append(hit.withdrawn(origin))
        self._waiting = [hit for hit in self._waiting if hit.number not in dropped]
        self._provisional.clear()
        self._withdraw_surplus()

    def _withdraw_surplus(self) -> None:
        """Withdraw hits that were only counted."""
        for origin, group in self._provisional_surplus:
            if origin.is_fault:
                continue
            self.totals[group[0]] -= 1
            counted = self._surplus.pop(group)
            if counted.count > 1:
                self._surplus[group] = replace(counted, count=counted.count - 1)
        self._provisional_surplus.clear()

    def add_checked(self, hits: Iterable[WatchpointHit]) -> int:
        """Add the results of a check at a pause, unless they are listed already; return the number
        of new hits, which do not count towards the next pause. Undecided results are added as one
        per reason, with a count."""
        known = {_identity(each) for each in (*self.remembered, *self._waiting)} | self._checked
        added: Counter[int] = Counter()
        undecided: dict[Group, WatchpointHit] = {}
        for hit in hits:
            if _identity(hit) in known:
                continue
            self._checked.add(_identity(hit))
            if hit.verdict == "undecided":
                group = (hit.watchpoint, hit.rule, hit.reason)
                if self._reported.get(group) != hit.where.step:
                    _count(undecided, group, hit)
                continue
            added[hit.watchpoint] += 1
            if added[hit.watchpoint] > MOST_PER_STEP:
                _count(self._surplus, (hit.watchpoint, hit.rule, None), hit)
            else:
                self._waiting.append(self._numbered(hit))
        for group, hit in undecided.items():
            self._report(group, hit)
        return added.total()

    def take(self) -> Sequence[WatchpointHit]:
        """The hits that were not taken yet, in order."""
        taken, self._waiting = self._waiting, []
        self.remembered += taken
        del self.remembered[:-MOST_REMEMBERED]
        return taken

    def end_step(self) -> None:
        """Add one hit for each group of hits and undecided results that were only counted."""
        for group, hit in self._undecided.items():
            if hit.where.step >= self._reported.get(group, -REMINDED_AFTER) + REMINDED_AFTER:
                self._report(group, hit)
        self._waiting += map(self._numbered, self._surplus.values())
        if self._carriers.is_due():
            self.report_counts()
        self._undecided.clear()
        self._surplus.clear()
        self._in_step.clear()
        self._checked.clear()

    def forget(self, watchpoint: int) -> None:
        """Count the hits of a watchpoint from 0 again, because it was changed."""
        del self.totals[watchpoint]
        self._carriers.forget(watchpoint)
        self._reported = {
            group: step for group, step in self._reported.items() if group[0] != watchpoint
        }

    def _report(self, group: Group, hit: WatchpointHit) -> None:
        self._reported[group] = hit.where.step
        self._waiting.append(self._numbered(hit))

    def _numbered(self, hit: WatchpointHit) -> WatchpointHit:
        self._next += 1
        return replace(hit, number=self._next - 1)


def _count(groups: dict[Group, WatchpointHit], group: Group, hit: WatchpointHit) -> None:
    known = groups.get(group)
    groups[group] = hit if known is None else replace(known, count=known.count + 1)


def _identity(hit: WatchpointHit) -> tuple[object, ...]:
    """What two results of the same check of the same tensor have in common."""
    where = hit.where
    return (hit.watchpoint, hit.rule, where.op, where.io, where.slot, where.step, hit.verdict)
