"""Hits by cause: one group for each op that made NaN or Inf, or for each condition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from sonde.core.graph import GRADIENTS, OPTIMIZER
from sonde.watch.hit_text import is_collective
from sonde.wire.api import CauseList, CausePhase, CauseView, HitPhase
from sonde.wire.shapes import HeadlineText, Hit

PHASES: Final[tuple[HitPhase, ...]] = ("forward", "backward", "optimizer", "weights")
MOST_CAUSES: Final = 500
CauseKey = tuple[int, str, int, str]
"""Rank, op of origin, and without one watchpoint and condition."""


def phase_of(op: str) -> HitPhase:
    """Where in a step the tensor belongs; weights and inputs have no scope."""
    if op.startswith(GRADIENTS) or op.endswith(".grad"):
        return "backward"
    if "/" not in op:
        return "weights"
    return "optimizer" if f"/{OPTIMIZER}-" in op else "forward"


def key_of(hit: Hit) -> CauseKey:
    if hit.origin is not None:
        return (hit.rank, hit.origin, 0, "")
    return (hit.rank, "", hit.watchpoint, hit.condition)


@dataclass(slots=True)
class _Group:
    first: Hit
    told: HeadlineText | None = None
    hits: int = 0
    tensors: dict[HitPhase, set[tuple[str, str, int]]] = field(default_factory=dict)
    counts: dict[HitPhase, int] = field(default_factory=dict)

    def add(self, hit: Hit) -> None:
        phase = phase_of(hit.op)
        self.tensors.setdefault(phase, set()).add((hit.op, hit.io, hit.slot))
        self.counts[phase] = self.counts.get(phase, 0) + hit.count
        self.hits += hit.count
        if _rank_of(hit) < _rank_of(self.first):
            self.first = hit
        if self.told is None and hit.headline is not None and hit.headline.source is not None:
            self.told = hit.headline

    @property
    def producer(self) -> Hit:
        """The first hit. The line that first uses a constant is not known when the constant is
        checked: then the sentence of a later hit, which names it, is used."""
        own = self.first.headline
        if self.told is None or not self.first.origin or (own is not None and own.source):
            return self.first
        return msgspec.structs.replace(self.first, headline=self.told)


def _rank_of(hit: Hit) -> tuple[bool, int, int, int]:
    """Producers first, then in the order of execution."""
    return hit.part != "producer", hit.step, hit.order, hit.number


def _place(hit: Hit) -> tuple[bool, int, bool, int, int]:
    """Causes of NaN and Inf first, the earliest first; in one step a rank that made them before the
    ranks that received them."""
    origin = hit.origin
    return (
        origin is None,
        hit.step,
        origin is not None and is_collective(origin),
        hit.order,
        hit.number,
    )


class CauseTable:
    """The causes of the hits of a run. Used in the event loop's thread only."""

    def __init__(self) -> None:
        self._groups: dict[CauseKey, _Group] = {}
        self._undecided: Counter[int] = Counter()
        self._harmless: Counter[int] = Counter()

    def add(self, hit: Hit) -> None:
        if hit.verdict != "hit":
            (self._harmless if hit.is_harmless else self._undecided)[hit.rank] += 1
            return
        group = self._groups.setdefault(key_of(hit), _Group(hit))
        group.add(hit)

    def list(self, rank: int | None = None) -> CauseList:
        """The causes of one rank, or of all: those of NaN and Inf first, the earliest first."""
        chosen = [(key, group) for key, group in self._groups.items() if rank in (None, key[0])]
        chosen.sort(key=lambda each: _place(each[1].first))
        views = tuple(_view(key, group) for key, group in chosen[:MOST_CAUSES])
        undecided, harmless = (
            counts.total() if rank is None else counts[rank]
            for counts in (self._undecided, self._harmless)
        )
        return CauseList(len(chosen), views, undecided, harmless)

    def first(self, rank: int | None = None) -> CauseView | None:
        """The first cause: of NaN and Inf, if there is one."""
        found = self.list(rank).causes
        return found[0] if found else None


def causes_of(hits: Iterable[Hit]) -> CauseTable:
    table = CauseTable()
    for hit in hits:
        table.add(hit)
    return table


def _view(key: CauseKey, group: _Group) -> CauseView:
    tensors = [each for names in group.tensors.values() for each in names]
    own = sum(op == key[1] for op, _, _ in tensors) if key[1] else 1
    return CauseView(
        rank=key[0],
        origin=key[1],
        watchpoint=group.first.watchpoint,
        condition=group.first.condition,
        first=group.producer,
        hits=group.hits,
        others=len(tensors) - own,
        phases=_phases(group),
    )


def _phases(group: _Group) -> tuple[CausePhase, ...]:
    present: Sequence[HitPhase] = [phase for phase in PHASES if phase in group.tensors]
    return tuple(CausePhase(each, len(group.tensors[each]), group.counts[each]) for each in present)
