"""The hits of a run, in execution order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from sonde.server.listing import Window
from sonde.wire.api import HitPage
from sonde.wire.shapes import Hit, Verdict

MOST_HITS: Final = 200_000


@dataclass(frozen=True, slots=True)
class HitFilter:
    """Which hits are wanted; None does not matter. ``ops``: those of one graph."""

    rank: int | None = None
    watchpoint: int | None = None
    step: int | None = None
    op: str | None = None
    verdict: Verdict | None = None
    ops: Container[str] | None = None

    def takes(self, hit: Hit) -> bool:
        return (
            self.rank in (None, hit.rank)
            and self.watchpoint in (None, hit.watchpoint)
            and self.step in (None, hit.step)
            and self.op in (None, hit.op)
            and self.verdict in (None, hit.verdict)
            and (self.ops is None or hit.op in self.ops)
        )


class HitBook:
    """Hits by step, then place in the step, inputs and parameters first, then rank.

    ``is_leaf`` tells of a hit whether its op is an input or a parameter. A hit with the rank and
    number of an earlier one takes its place. The first ``MOST_HITS`` are kept; ``dropped`` counts
    the others.
    """

    def __init__(self, is_leaf: Callable[[Hit], bool]) -> None:
        self._is_leaf = is_leaf
        self._hits: dict[tuple[int, int], Hit] = {}
        self._sorted: list[Hit] | None = []
        self._counts: Counter[str] | None = None
        self._by_rank: Counter[int] = Counter()
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._hits)

    def add(self, hits: Iterable[Hit]) -> None:
        for hit in hits:
            key = (hit.rank, hit.number)
            if len(self._hits) >= MOST_HITS and key not in self._hits:
                self.dropped += 1
                continue
            if key not in self._hits and hit.verdict == "hit":
                self._by_rank[hit.rank] += 1
            self._hits[key] = hit
        self._sorted = self._counts = None

    def clear(self, rank: int | None = None) -> None:
        """Forget all hits, or those of one rank."""
        self._hits = {k: hit for k, hit in self._hits.items() if rank not in (None, hit.rank)}
        self._by_rank = Counter(h.rank for h in self._hits.values() if h.verdict == "hit")
        self._sorted = self._counts = None

    def in_order(self) -> Sequence[Hit]:
        if self._sorted is None:
            self._sorted = sorted(self._hits.values(), key=self._place)
        return self._sorted

    def _place(self, hit: Hit) -> tuple[int, bool, int, int, str, int, int]:
        # A parameter that the step itself spoiled stands where that happened.
        is_late = hit.part == "carrier" or not self._is_leaf(hit)
        return hit.step, is_late, hit.order, hit.rank, hit.io, hit.slot, hit.number

    def page(self, wanted: HitFilter, window: Window) -> HitPage:
        found = [hit for hit in self.in_order() if wanted.takes(hit)]
        return HitPage(len(found), window.offset, tuple(found[window.slice]))

    @property
    def counts(self) -> Counter[str]:
        """Hits by op; what could not be decided does not count."""
        if self._counts is None:
            self._counts = Counter(hit.op for hit in self._hits.values() if hit.verdict == "hit")
        return self._counts

    def count(self, rank: int) -> int:
        """Hits of one rank; what could not be decided does not count."""
        return self._by_rank[rank]

    def origins(self) -> set[str]:
        """The ops that made non-finite values out of finite ones, as far as hits tell."""
        named = {hit.origin for hit in self._hits.values() if hit.origin is not None}
        return named | {hit.op for hit in self._hits.values() if hit.part == "producer"}
