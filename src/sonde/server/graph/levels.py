"""One level of a graph as boxes and edges: the direct content of a scope."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from sonde.core.errors import UsageError
from sonde.server.graph.index import GraphIndex
from sonde.wire.api import Level, LevelEdge, LevelNode
from sonde.wire.shapes import TensorType

SAME_OPS: Final = 12
"""At least so many ops of one type in one scope are drawn as one box."""
SAME_LEAVES: Final = 3
"""At least so many leaves whose names differ only in a number are drawn as one box."""
SAME_SCOPES: Final = 3
"""At least so many consecutive scopes with the same structure are drawn as one box. Scopes that are
not consecutive are merged only from ``SAME_OPS`` on, because that hides how data flows."""
MOST_BOXES: Final = 2000
MOST_OUTSIDE: Final = 40
MOST_MEMBERS: Final = 1000
MOST_EDGES: Final = 20_000

What = Literal["op", "scope", "group", "outside"]
Longs = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Marks:
    """Hits by op, and the ops that produced non-finite values."""

    hits: Mapping[str, int] = field(default_factory=dict)
    origins: Collection[str] = ()


@dataclass(slots=True)
class Box:
    """One box of a level; ``parts`` are the nodes and scopes that it represents, scopes as negative
    numbers (``~scope``)."""

    path: str
    label: str
    what: What
    parts: list[int]
    stands_for: int = 1


def level(index: GraphIndex, scope: str, group: str = "", marks: Marks | None = None) -> Level:
    """The boxes directly inside ``scope``, or inside its group ``group``; UsageError if there is no
    such scope or group."""
    place = index.scope(scope)
    path = index.scopes[place].path
    boxes = grouped(index, place)
    outer: list[Box] = []
    if group:
        chosen = next((box for box in boxes if box.path == group), None)
        if chosen is None:
            raise UsageError(f"no group {group!r} in {path!r}", slug="no-such-scope")
        outer = [box for box in boxes if box is not chosen]
        boxes = [_single(index, part) for part in chosen.parts]
    hidden = max(len(boxes) - MOST_BOXES, 0)
    boxes = boxes[:MOST_BOXES]
    wiring = _Wiring(index, place, boxes, outer)
    outside, edges = wiring.drawn()
    counts = _Counts(index, marks or Marks())
    nodes = [counts.node(box) for box in (*boxes, *outside)]
    return Level(index.graph, path, group, tuple(nodes), tuple(edges), hidden)


def _single(index: GraphIndex, part: int) -> Box:
    if part >= 0:
        return Box(index.nodes[part].name, index.label(part), "op", [part])
    scope = index.scopes[~part]
    return Box(scope.path, scope.label, "scope", [part])


def grouped(index: GraphIndex, place: int) -> list[Box]:
    """The children of a scope, equal ones merged, in the order of their first nodes."""
    scope = index.scopes[place]
    alike: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for child in scope.children:
        if child >= 0:
            node = index.nodes[child]
            alike[(node.type, node.kind, node.phase)].append(child)
        else:
            alike[index.scopes[~child].repeats_as].append(child)
    boxes: list[Box] = []
    follows = _followers(index, scope.children)
    for children in alike.values():
        if len(children) >= SAME_OPS:
            boxes.append(_group(index, scope.path, children))
        elif children[0] >= 0:
            boxes.extend(_few(index, scope.path, children))
        else:
            for run in _runs(children, follows):
                if len(run) >= SAME_SCOPES:
                    boxes.append(_group(index, scope.path, run))
                else:
                    boxes.extend(_single(index, child) for child in run)
    boxes.sort(key=lambda box: _first(index, box.parts[0]))
    return boxes


def _followers(index: GraphIndex, children: Sequence[int]) -> set[tuple[int, int]]:
    """Pairs of consecutive children; leaves do not count."""
    acting = [child for child in children if child < 0 or index.nodes[child].kind == "op"]
    return set(pairwise(acting))


def _runs(children: Sequence[int], follows: Collection[tuple[int, int]]) -> list[list[int]]:
    runs = [[children[0]]]
    for before, child in pairwise(children):
        if (before, child) in follows:
            runs[-1].append(child)
        else:
            runs.append([child])
    return runs


def _few(index: GraphIndex, path: str, children: Sequence[int]) -> list[Box]:
    """A box for each node; numbered leaves are merged."""
    numbered: dict[str | int, list[int]] = defaultdict(list)
    for child in children:
        is_leaf = index.nodes[child].kind != "op"
        stem = index.label(child).rstrip("0123456789") if is_leaf else ""
        numbered[stem if stem.endswith(("-", "_")) else child].append(child)
    return [
        _group(index, path, few) if len(few) >= SAME_LEAVES else _single(index, child)
        for few in numbered.values()
        for child in (few[:1] if len(few) >= SAME_LEAVES else few)
    ]


def _group(index: GraphIndex, path: str, children: list[int]) -> Box:
    first = _single(index, children[0])
    label = index.nodes[children[0]].type if children[0] >= 0 else first.label
    key = first.label if children[0] >= 0 else f"{first.label}/"
    return Box(f"{path}*{key}", label, "group", children, len(children))


def _first(index: GraphIndex, part: int) -> int:
    return part if part >= 0 else index.scopes[~part].first


class _Wiring:
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
            box = _single(index, parts[0])
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
        (int(a), int(b), int(count), describe(edges.kinds[kind]) if kind == other else "")
        for (a, b), count, kind, other in zip(
            table[:2, starts].T, counts, low.tolist(), high.tolist(), strict=True
        )
    ][:MOST_EDGES]


def describe(kind: TensorType) -> str:
    return f"{kind.dtype} [{', '.join(map(str, kind.shape))}]"


class _Counts:
    """Adds the counts of ops and hits to boxes."""

    def __init__(self, index: GraphIndex, marks: Marks) -> None:
        self._index = index
        self._hits: dict[int, int] = defaultdict(int)
        self._origins: set[int] = set()
        for name, count in marks.hits.items():
            for part in self._chain(name):
                self._hits[part] += count
        for name in marks.origins:
            self._origins.update(self._chain(name))

    def _chain(self, name: str) -> list[int]:
        """The node and the scopes around it."""
        number = self._index.numbers.get(name)
        if number is None:
            return []
        above = self._index.ancestors[:, number]
        return [number, *(~scope for scope in above[above >= 0].tolist())]

    def node(self, box: Box) -> LevelNode:
        index = self._index
        spans = [index.span(part) for part in box.parts]
        head = spans[0][0]
        is_node = box.parts[0] >= 0
        ops = sum(
            index.scopes[~part].ops if part < 0 else index.nodes[part].kind == "op"
            for part in box.parts
        )
        return LevelNode(
            path=box.path,
            label=box.label,
            what=box.what,
            type=head.type if is_node else _class_of(index.scopes[~box.parts[0]].label),
            kind=head.kind if is_node else "op",
            phase=head.phase,
            ops=ops,
            stands_for=box.stands_for,
            members=tuple(_single(index, part).path for part in box.parts[:MOST_MEMBERS])
            if box.stands_for > 1
            else (),
            hits=sum(self._hits.get(part, 0) for part in box.parts),
            has_origin=any(part in self._origins for part in box.parts),
            first_order=head.order,
            last_order=max(last.order for _, last in spans),
        )


def _class_of(label: str) -> str:
    """The class name in a label: ``Linear`` of ``0-Linear``."""
    return label.partition("-")[2] or label
