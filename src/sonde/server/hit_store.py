"""The hits of a run, in execution order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final, TypeVar

import msgspec

from sonde.server.causes import CauseTable, causes_of, phase_of
from sonde.server.graph.search import PageWindow
from sonde.wire.api import HitPage, HitPhase
from sonde.wire.shapes import Hit, Verdict

MOST_HITS: Final = 200_000
"""If there are more, the first half and at least the newest quarter of them are kept."""
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class HitFilter:
    """Selects hits by the fields that are not None. ``is_in_graph``: those of one graph.
    ``origin``: an op, or empty for hits without one."""

    rank: int | None = None
    watchpoint: int | None = None
    step: int | None = None
    op: str | None = None
    verdict: Verdict | None = None
    is_in_graph: Callable[[Hit], bool] | None = None
    origin: str | None = None
    condition: str | None = None
    phase: HitPhase | None = None
    is_harmless: bool | None = None

    def takes(self, hit: Hit) -> bool:
        return (
            self.rank in (None, hit.rank)
            and self.watchpoint in (None, hit.watchpoint)
            and self.step in (None, hit.step)
            and self.op in (None, hit.op)
            and self.verdict in (None, hit.verdict)
            and (self.is_in_graph is None or self.is_in_graph(hit))
            and self.origin in (None, hit.origin or "")
            and self.condition in (None, hit.condition)
            and (self.phase is None or self.phase == phase_of(hit.op))
            and self.is_harmless in (None, hit.is_harmless)
        )


_Place = tuple[int, bool, int, int, str, int, int]


def page_of(
    hits: Sequence[Hit], wanted: HitFilter, window: PageWindow, dropped: int = 0
) -> HitPage:
    """A page of the selected ``hits``."""
    if wanted != HitFilter():
        hits = [hit for hit in hits if wanted.takes(hit)]
    return HitPage(len(hits), window.offset, tuple(hits[window.slice]), dropped)


class HitStore:
    """Hits in the order of step, place in the step (inputs and parameters first), rank.

    ``is_leaf`` returns whether the op of a hit is an input or a parameter. A hit replaces an
    earlier one with the same rank and number. If there are more than ``MOST_HITS``, the first and
    the newest are kept, and the others are counted.
    """

    def __init__(self, is_leaf: Callable[[Hit], bool]) -> None:
        self._is_leaf = is_leaf
        self._hits: dict[tuple[int, int], Hit] = {}
        self._known: dict[Any, Any] = {}
        self._new: list[Hit] = []
        self._entries: list[tuple[_Place, Hit]] = []
        self._sorted: tuple[Hit, ...] = ()
        self._is_unsorted = False
        self._counts: dict[int, Counter[str]] = {}
        self._origins: dict[int, set[str]] = {}
        self._by_rank: Counter[int] = Counter()
        self._dropped: Counter[tuple[int, Verdict]] = Counter()
        self.causes = CauseTable()

    def __len__(self) -> int:
        return len(self._hits)

    def add(self, hits: Iterable[Hit]) -> None:
        for hit in hits:
            key = (hit.rank, hit.number)
            if key in self._hits:
                self._replace(key, hit)
            else:
                hit = self._hits[key] = self._shared(hit)
                self._new.append(hit)
                self._by_rank[hit.rank] += hit.verdict == "hit"
                self.causes.add(hit)
        if self._is_unsorted:
            self._sort_again()
        self._counts, self._origins = {}, {}
        if len(self._hits) > MOST_HITS:
            self._drop_middle()

    def _drop_middle(self) -> None:
        """Drop many hits at once, because the rest must be sorted again."""
        came = list(self._hits.items())
        first, newest = MOST_HITS // 2, MOST_HITS // 4
        self._dropped.update((hit.rank, hit.verdict) for _, hit in came[first:-newest])
        self._hits = dict(came[:first] + came[-newest:])
        self._known = {}
        self._sort_again()

    def _replace(self, key: tuple[int, int], hit: Hit) -> None:
        if self._hits[key] != hit:
            self._hits[key] = self._shared(hit)
            self._is_unsorted = True

    def _shared(self, hit: Hit) -> Hit:
        """The hit with strings and chains that other hits share; those of two steps are mostly
        equal."""
        return msgspec.structs.replace(
            hit,
            condition=self._once(hit.condition),
            op=self._once(hit.op),
            type=self._once(hit.type),
            why=self._once(hit.why),
            origin=self._once(hit.origin),
            chain=self._known.get(hit.chain) or self._once(tuple(map(self._once, hit.chain))),
            source=self._once(hit.source),
            headline=self._once(hit.headline),
            advice=self._once(hit.advice),
        )

    def _once(self, value: Value) -> Value:
        found: Value = self._known.setdefault(value, value)
        return found

    def clear(self, rank: int | None = None) -> None:
        """Forget all hits, or those of one rank."""
        self._hits = {k: hit for k, hit in self._hits.items() if rank not in (None, hit.rank)}
        for key in [key for key in self._dropped if rank in (None, key[0])]:
            del self._dropped[key]
        self._known = {}
        self._sort_again()

    def _sort_again(self) -> None:
        self._by_rank = Counter(h.rank for h in self._hits.values() if h.verdict == "hit")
        self._is_unsorted = False
        self._entries, self._new = [], list(self._hits.values())
        self._sorted = ()
        self._counts, self._origins = {}, {}
        self.causes = causes_of(self._hits.values())

    def in_order(self) -> Sequence[Hit]:
        """All hits; the returned sequence does not change later."""
        if self._new:
            # Nearly sorted: new hits are mostly the last.
            self._entries.extend((self._place(hit), hit) for hit in self._new)
            self._entries.sort(key=itemgetter(0))
            self._sorted = tuple(hit for _, hit in self._entries)
            self._new = []
        return self._sorted

    def _place(self, hit: Hit) -> _Place:
        # A parameter that became non-finite in the step is listed at the op that did it.
        is_late = hit.part == "carrier" or not self._is_leaf(hit)
        return hit.step, is_late, hit.order, hit.rank, hit.io, hit.slot, hit.number

    def page(self, wanted: HitFilter, window: PageWindow) -> HitPage:
        return page_of(self.in_order(), wanted, window, self.dropped(wanted.rank))

    def counts(self, rank: int) -> Counter[str]:
        """The number of hits of one rank by op, without undecided results."""
        known = self._counts.get(rank)
        if known is None:
            known = self._counts[rank] = Counter(
                hit.op for hit in self._hits.values() if hit.rank == rank and hit.verdict == "hit"
            )
        return known

    def count(self, rank: int) -> int:
        """The number of hits of one rank, with those not kept, without undecided results."""
        return self._by_rank[rank] + self._dropped[rank, "hit"]

    def dropped(self, rank: int | None = None) -> int:
        """The number of hits of one rank, or of all ranks, that were not kept."""
        return sum(count for (each, _), count in self._dropped.items() if rank in (None, each))

    def origins(self, rank: int) -> set[str]:
        """The ops of one rank that produced non-finite values, according to its hits."""
        known = self._origins.get(rank)
        if known is None:
            own = [h for h in self._hits.values() if h.rank == rank and h.verdict == "hit"]
            named = {hit.origin for hit in own if hit.origin is not None}
            known = self._origins[rank] = named | {h.op for h in own if h.part == "producer"}
        return known
