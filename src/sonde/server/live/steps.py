"""The steps of one rank of a live run: losses, speed, and which graph each step ran."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Final

from sonde.server.graph.differences import MOST_RANGES
from sonde.wire.shapes import LossPoint

MOST_POINTS: Final = 200_000
_RECENT: Final = 50


class StepHistory:
    """The steps that have ended. Used in the event loop's thread only.

    ``points`` are all steps, or, beyond ``MOST_POINTS``, every second one, and so on.
    """

    def __init__(self) -> None:
        self.points: list[LossPoint] = []
        self.last = -1
        self._graph_changes: list[tuple[int, int | None]] = []
        self._recent: deque[LossPoint] = deque(maxlen=_RECENT)
        # Apart from the others, because while a watchpoint wants every op no more are added.
        self._bare: deque[LossPoint] = deque(maxlen=_RECENT)

    def add(self, point: LossPoint, graph: int | None) -> None:
        """Add a step, unless it is known; ``graph`` is the last that was observed."""
        if point.step <= self.last:
            return
        self._note_graph(point.step, graph if point.observed else None)
        self.last = point.step
        if len(self.points) == 1:
            # The first step is slow, and not typical for the others.
            self._recent.clear()
            self._bare.clear()
        self.points.append(point)
        self._recent.append(point)
        if point.bare_seconds is not None:
            self._bare.append(point)
        if len(self.points) > MOST_POINTS:
            self.points = _thinned(self.points)

    def _note_graph(self, step: int, graph: int | None) -> None:
        """Note in which step the graph changes; only the first ``MOST_POINTS`` changes are kept."""
        changes = self._graph_changes
        if len(changes) > MOST_POINTS:
            graph = None
        if step != self.last + 1 and changes and changes[-1][1] is not None:
            changes.append((self.last + 1, None))
        if not changes or changes[-1][1] != graph:
            changes.append((step, graph))

    def graph_of(self, step: int) -> int | None:
        """The graph of a step that has ended; None if its ops were not observed."""
        at = bisect_right(self._graph_changes, step, key=lambda change: change[0]) - 1
        return self._graph_changes[at][1] if at >= 0 else None

    def by_graph(self) -> Mapping[int, tuple[tuple[int, int], ...]]:
        """For each graph the first and last of consecutive steps that ran it, of the latest."""
        found: dict[int, list[tuple[int, int]]] = {}
        changes = self._graph_changes[-MOST_RANGES:]
        ends = [step - 1 for step, _ in changes[1:]] + [self.last]
        for (first, graph), last in zip(changes, ends, strict=False):
            if graph is not None:
                found.setdefault(graph, []).append((first, last))
        return {graph: tuple(ranges) for graph, ranges in found.items()}

    @property
    def seconds(self) -> float | None:
        """Of a typical step with Sonde, None if that is not known: of the recent steps that were
        observed if the last one was, else of those that were not."""
        recent = [each for each in self._recent if each.observed == self._recent[-1].observed]
        return _typical((each.optimizer, each.seconds) for each in recent)

    @property
    def bare_seconds(self) -> float | None:
        """Of a typical step without Sonde: of the latest steps that were not observed."""
        return _typical((each.optimizer, each.bare_seconds or 0.0) for each in self._bare)


def _typical(times: Iterable[tuple[str, float]]) -> float | None:
    """The median; of several optimizers the mean of theirs, each weighted by how often it steps,
    because a step of one optimizer of a GAN may take much longer than one of the other."""
    by_optimizer: dict[str, list[float]] = {}
    for optimizer, seconds in times:
        by_optimizer.setdefault(optimizer, []).append(seconds)
    if not by_optimizer:
        return None
    count = sum(map(len, by_optimizer.values()))
    return sum(median(each) * len(each) for each in by_optimizer.values()) / count


def _thinned(points: Sequence[LossPoint]) -> list[LossPoint]:
    """Every second point of each optimizer: of all points, one of two optimizers that take turns
    would disappear. With very many optimizers every second point of all."""
    is_kept: dict[str, bool] = {}
    kept: list[LossPoint] = []
    for point in points:
        now = is_kept[point.optimizer] = not is_kept.get(point.optimizer, False)
        if now:
            kept.append(point)
    return kept if len(kept) <= len(points) * 3 // 4 else list(points[::2])
