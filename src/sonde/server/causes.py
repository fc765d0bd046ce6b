"""Hits by cause: one group for each op that made NaN or Inf, or for each condition."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from sonde.core.graph import GRADIENTS, OPTIMIZER
from sonde.watch.hit_text import is_collective
from sonde.wire.api import CauseList, CausePhase, CauseView, HitPhase
from sonde.wire.shapes import Hit

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
    hits: int = 0
    ops: dict[HitPhase, set[str]] = field(default_factory=dict)
    counts: dict[HitPhase, int] = field(default_factory=dict)

    def add(self, hit: Hit) -> None:
        phase = phase_of(hit.op)
        self.ops.setdefault(phase, set()).add(hit.op)
        self.counts[phase] = self.counts.get(phase, 0) + hit.count
        self.hits += hit.count
        if _rank_of(hit) < _rank_of(self.first):
            self.first = hit


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
        self._undecided: dict[int, int] = {}

    def add(self, hit: Hit) -> None:
        if hit.verdict != "hit":
            self._undecided[hit.rank] = self._undecided.get(hit.rank, 0) + 1
            return
        group = self._groups.setdefault(key_of(hit), _Group(hit))
        group.add(hit)

    def list(self, rank: int | None = None) -> CauseList:
        """The causes of one rank, or of all: those of NaN and Inf first, the earliest first."""
        chosen = [(key, group) for key, group in self._groups.items() if rank in (None, key[0])]
        chosen.sort(key=lambda each: _place(each[1].first))
        undecided = sum(n for each, n in self._undecided.items() if rank in (None, each))
        views = tuple(_view(key, group) for key, group in chosen[:MOST_CAUSES])
        return CauseList(len(chosen), views, undecided)

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
    ops = {op for each in group.ops.values() for op in each}
    return CauseView(
        rank=key[0],
        origin=key[1],
        watchpoint=group.first.watchpoint,
        condition=group.first.condition,
        first=group.first,
        hits=group.hits,
        others=len(ops - {key[1]}) if key[1] else len(ops) - 1,
        phases=_phases(group),
    )


def _phases(group: _Group) -> tuple[CausePhase, ...]:
    present: Sequence[HitPhase] = [phase for phase in PHASES if phase in group.ops]
    return tuple(CausePhase(each, len(group.ops[each]), group.counts[each]) for each in present)
