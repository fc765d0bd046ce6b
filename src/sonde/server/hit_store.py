"""The hits of a run, in execution order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec

from sonde.server.graph.search import PageWindow
from sonde.wire.api import HitPage
from sonde.wire.shapes import Hit, Verdict

MOST_HITS: Final = 200_000
"""Of more, the first half and the newest are kept, at least a quarter."""
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class HitFilter:
    """Which hits are wanted; None does not matter. ``is_in_graph``: those of one graph."""

    rank: int | None = None
    watchpoint: int | None = None
    step: int | None = None
    op: str | None = None
    verdict: Verdict | None = None
    is_in_graph: Callable[[Hit], bool] | None = None

    def takes(self, hit: Hit) -> bool:
        return (
            self.rank in (None, hit.rank)
            and self.watchpoint in (None, hit.watchpoint)
            and self.step in (None, hit.step)
            and self.op in (None, hit.op)
            and self.verdict in (None, hit.verdict)
            and (self.is_in_graph is None or self.is_in_graph(hit))
        )


_Place = tuple[int, bool, int, int, str, int, int]


def _first(entry: tuple[_Place, Hit]) -> _Place:
    return entry[0]


def page_of(
    hits: Sequence[Hit], wanted: HitFilter, window: PageWindow, dropped: int = 0
) -> HitPage:
    """A page of those of ``hits`` that are wanted."""
    if wanted != HitFilter():
        hits = [hit for hit in hits if wanted.takes(hit)]
    return HitPage(len(hits), window.offset, tuple(hits[window.slice]), dropped)


class HitStore:
    """Hits by step, then place in the step, inputs and parameters first, then rank.

    ``is_leaf`` tells of a hit whether its op is an input or a parameter. A hit with the rank and
    number of an earlier one takes its place. Of more than ``MOST_HITS`` the first to come and the
    last are kept, the others counted.
    """

    def __init__(self, is_leaf: Callable[[Hit], bool]) -> None:
        self._is_leaf = is_leaf
        self._hits: dict[tuple[int, int], Hit] = {}
        self._known: dict[Any, Any] = {}
        self._new: list[Hit] = []
        self._entries: list[tuple[_Place, Hit]] = []
        self._sorted: tuple[Hit, ...] = ()
        self._counts: dict[int, Counter[str]] = {}
        self._origins: dict[int, set[str]] = {}
        self._by_rank: Counter[int] = Counter()
        self._dropped: Counter[tuple[int, Verdict]] = Counter()

    def __len__(self) -> int:
        return len(self._hits)

    def add(self, hits: Iterable[Hit]) -> None:
        for hit in hits:
            key = (hit.rank, hit.number)
            if key in self._hits:
                self._replace(key, hit)
            else:
                hit = self._hits[key] = self._lean(hit)
                self._new.append(hit)
                self._by_rank[hit.rank] += hit.verdict == "hit"
        self._counts, self._origins = {}, {}
        if len(self._hits) > MOST_HITS:
            self._drop_middle()

    def _drop_middle(self) -> None:
        """Many at once, because what is left is put in order anew."""
        came = list(self._hits.items())
        first, newest = MOST_HITS // 2, MOST_HITS // 4
        self._dropped.update((hit.rank, hit.verdict) for _, hit in came[first:-newest])
        self._hits = dict(came[:first] + came[-newest:])
        self._known = {}
        self._begin_again()

    def _replace(self, key: tuple[int, int], hit: Hit) -> None:
        if self._hits[key] != hit:
            self._hits[key] = self._lean(hit)
            self._begin_again()

    def _lean(self, hit: Hit) -> Hit:
        """The same, without values of its own that others have already: names of ops and the way
        from an origin are mostly those of the step before."""
        return msgspec.structs.replace(
            hit,
            condition=self._once(hit.condition),
            op=self._once(hit.op),
            type=self._once(hit.type),
            why=self._once(hit.why),
            origin=self._once(hit.origin),
            chain=self._known.get(hit.chain) or self._once(tuple(map(self._once, hit.chain))),
            source=self._once(hit.source),
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
        self._begin_again()

    def _begin_again(self) -> None:
        self._by_rank = Counter(h.rank for h in self._hits.values() if h.verdict == "hit")
        self._entries, self._new = [], list(self._hits.values())
        self._sorted = ()
        self._counts, self._origins = {}, {}

    def in_order(self) -> Sequence[Hit]:
        """All hits; what is given does not change later."""
        if self._new:
            # Nearly sorted: what is new mostly comes last.
            self._entries.extend((self._place(hit), hit) for hit in self._new)
            self._entries.sort(key=_first)
            self._sorted = tuple(hit for _, hit in self._entries)
            self._new = []
        return self._sorted

    def _place(self, hit: Hit) -> _Place:
        # A parameter that the step itself spoiled stands where that happened.
        is_late = hit.part == "carrier" or not self._is_leaf(hit)
        return hit.step, is_late, hit.order, hit.rank, hit.io, hit.slot, hit.number

    def page(self, wanted: HitFilter, window: PageWindow) -> HitPage:
        return page_of(self.in_order(), wanted, window, self.dropped(wanted.rank))

    def counts(self, rank: int) -> Counter[str]:
        """Hits of one rank by op; what could not be decided does not count."""
        known = self._counts.get(rank)
        if known is None:
            known = self._counts[rank] = Counter(
                hit.op for hit in self._hits.values() if hit.rank == rank and hit.verdict == "hit"
            )
        return known

    def count(self, rank: int) -> int:
        """Hits of one rank, also those not kept; what could not be decided does not count."""
        return self._by_rank[rank] + self._dropped[rank, "hit"]

    def dropped(self, rank: int | None = None) -> int:
        """How many of one rank, None: of all, were not kept."""
        return sum(count for (each, _), count in self._dropped.items() if rank in (None, each))

    def origins(self, rank: int) -> set[str]:
        """The ops of one rank that made non-finite values out of finite ones, as hits tell."""
        known = self._origins.get(rank)
        if known is None:
            own = [hit for hit in self._hits.values() if hit.rank == rank]
            named = {hit.origin for hit in own if hit.origin is not None}
            known = self._origins[rank] = named | {h.op for h in own if h.part == "producer"}
        return known
