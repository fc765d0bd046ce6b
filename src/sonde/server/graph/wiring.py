"""The edges of one level of a graph, and the boxes outside that they lead to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sonde.core.statistics import type_text
from sonde.server.graph.boxes import Box, single
from sonde.server.graph.index import GraphIndex
from sonde.wire.graphs import LevelEdge
from sonde.wire.shapes import TensorType

MOST_OUTSIDE: Final = 40
MOST_EDGES: Final = 20_000

Longs = NDArray[np.int64]


class Wiring:
    """Which box each node is in, and the edges between boxes."""

    def __init__(
        self, index: GraphIndex, place: int, boxes: Sequence[Box], outer: Sequence[Box]
    ) -> None:
        self._index = index
        self._place = place
        self._boxes = list(boxes)
        self._inside = len(boxes)
        self._of = np.full(len(index), -1, np.int64)
        self._assign(outer, self._inside)
        self._assign(boxes, 0)
        self._outer = list(outer)

    def _assign(self, boxes: Sequence[Box], start: int) -> None:
        index = self._index
        depth = index.scopes[self._place].depth + 1
        row = index.ancestors[depth] if depth < len(index.ancestors) else None
        by_scope = np.full(len(index.scopes) + 1, -1, np.int64)
        for number, box in enumerate(boxes, start):
            for part in box.parts:
                if part >= 0:
                    self._of[part] = number
                else:
                    by_scope[~part] = number
        if row is not None:
            found = by_scope[row]  # Row -1 finds the last entry, which is -1.
            self._of = np.where(found >= 0, found, self._of)

    def drawn(self) -> tuple[list[Box], list[LevelEdge]]:
        """The boxes outside that exchange data with those inside, and all edges between boxes."""
        edges = self._index.edges
        source, target = self._of[edges.source], self._of[edges.target]
        touching = self._is_inside(source) | self._is_inside(target)
        rows = np.flatnonzero(touching & ((source != target) | (source < 0)))
        outside: list[Box] = list(self._outer)
        source, target = source[rows], target[rows]
        elsewhere = _Elsewhere(self._index, self._place)
        for ends, nodes in ((source, edges.source[rows]), (target, edges.target[rows])):
            missing = np.flatnonzero(ends < 0)
            ends[missing] = elsewhere.number(nodes[missing])
        found, outside_of = elsewhere.boxes(self._inside + len(self._outer))
        outside += found
        source, target = outside_of(source), outside_of(target)
        bundles = _bundle(self._index, rows, source, target)
        paths = [box.path for box in (*self._boxes, *outside)]
        drawn = [LevelEdge(paths[a], paths[b], count, label) for a, b, count, label in bundles]
        used = {edge.source for edge in drawn} | {edge.target for edge in drawn}
        shown = [
            Box(box.path, box.label, "outside", box.parts, box.stands_for)
            for box in outside
            if box.path in used
        ]
        return shown, drawn

    def _is_inside(self, boxes: Longs) -> NDArray[np.bool_]:
        return (boxes >= 0) & (boxes < self._inside)


class _Elsewhere:
    """Nodes outside a scope, in the largest boxes that do not contain the scope itself."""

    def __init__(self, index: GraphIndex, place: int) -> None:
        self._index = index
        self._found: dict[int, int] = {}
        self._lineage = []
        while place >= 0:
            self._lineage.append(place)
            place = index.scopes[place].parent
        self._lineage.reverse()

    def number(self, nodes: NDArray[np.int32]) -> Longs:
        """For each node the number of its box, counted down from -1."""
        parts = nodes.astype(np.int64)
        ancestors = self._index.ancestors
        undecided = np.ones(len(nodes), bool)
        for depth, own in enumerate((*self._lineage[1:], -2), 1):
            above = ancestors[depth][nodes] if depth < len(ancestors) else np.full(len(nodes), -1)
            leaves = undecided & (above != own)
            parts[leaves & (above >= 0)] = ~above[leaves & (above >= 0)].astype(np.int64)
            undecided &= ~leaves
        unique, inverse = np.unique(parts, return_inverse=True)
        numbers = [self._found.setdefault(part, len(self._found)) for part in unique.tolist()]
        return -1 - np.array(numbers, np.int64)[inverse.reshape(-1)]

    def boxes(self, start: int) -> tuple[list[Box], Callable[[Longs], Longs]]:
        """The boxes, equal ones merged if there are many, numbered from ``start`` on."""
        index = self._index
        groups: dict[object, list[int]] = defaultdict(list)
        for part in self._found:
            groups[self._key(part) if len(self._found) > MOST_OUTSIDE else part].append(part)
        boxes: list[Box] = []
        number_of = np.zeros(len(self._found) + 1, np.int64)
        for parts in groups.values():
            box = single(index, parts[0])
            if len(parts) > 1:
                above = "/".join(box.path.rstrip("/").split("/")[:-1])
                label = index.nodes[parts[0]].type if parts[0] >= 0 else box.label
                box = Box(f"{above}/*{box.label}", label, "group", parts, len(parts))
            for part in parts:
                number_of[self._found[part]] = start + len(boxes)
            boxes.append(box)

        def resolved(ends: Longs) -> Longs:
            return np.where(ends < 0, number_of[np.where(ends < 0, -1 - ends, 0)], ends)

        return boxes, resolved

    def _key(self, part: int) -> object:
        if part >= 0:
            node = self._index.nodes[part]
            return node.type, node.kind, node.phase, int(self._index.scope_of[part])
        scope = self._index.scopes[~part]
        return scope.repeats_as, scope.parent


def _bundle(
    index: GraphIndex, rows: Longs, source: Longs, target: Longs
) -> list[tuple[int, int, int, str]]:
    """Merge edges with the same ends: ends, number of tensors, the type if all are equal."""
    if not len(rows):
        return []
    edges = index.edges
    table = np.stack((source, target, edges.source[rows], edges.slot[rows], edges.kind[rows]))
    table = table[:, table[0] != table[1]]
    order = np.lexsort(table[3::-1])
    table = table[:, order]
    if not table.shape[1]:
        return []
    is_new = np.any(np.diff(table[:4], axis=1) != 0, axis=0)
    table = table[:, np.append(True, is_new)]
    starts = np.flatnonzero(np.append(True, np.any(np.diff(table[:2], axis=1) != 0, axis=0)))
    counts = np.diff(np.append(starts, table.shape[1]))
    low = np.minimum.reduceat(table[4], starts)
    high = np.maximum.reduceat(table[4], starts)
    return [
        (int(a), int(b), int(count), _type_text(edges.kinds[kind]) if kind == other else "")
        for (a, b), count, kind, other in zip(
            table[:2, starts].T, counts, low.tolist(), high.tolist(), strict=True
        )
    ][:MOST_EDGES]


def _type_text(kind: TensorType) -> str:
    return type_text(kind.dtype, kind.shape)
