"""A comparison in the form of the page: views of pairs, pages of them, marks in the graph."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sonde.compare.runs.result import OpPair, RunComparison, TensorPair, Unpaired
from sonde.core.graph import Source
from sonde.server.graph.index import GraphIndex
from sonde.server.graph.levels import level
from sonde.server.graph.search import PageWindow
from sonde.wire import comparison as wire
from sonde.wire import queries
from sonde.wire.convert import copy_fields, distance_numbers, source_line
from sonde.wire.numbers import to_wire
from sonde.wire.shapes import SourceLine

SEVERITY: Final[tuple[wire.PairStatus, ...]] = (
    "not dumped",
    "equal",
    "within",
    "rounding",
    "inherited",
    "incomparable",
    "diverged",
)
"""From best to worst; the status of a scope is the worst in it."""


@dataclass(slots=True)
class ComparisonPages:
    """Questions about one comparison, from the side of one of its runs."""

    found: RunComparison
    _marks: dict[tuple[wire.Side, int, int, bool], _GraphMarks] = field(default_factory=dict)

    def pairs(self, side: wire.Side, query: queries.PairsQuery) -> wire.PairPage:
        """The pairs that match, in execution order or the worst first."""
        words = query.query.lower().split()
        chosen = [
            number
            for number, pair in enumerate(self.found.pairs)
            if query.status in (None, pair.status)
            and query.phase in (None, pair.phase)
            and query.step in (None, pair.step)
            and _has_op(pair, side, query.op)
            and _has_words(f"{pair.a} {pair.b}", words)
        ]
        if query.sort == "error":
            chosen.sort(key=lambda number: _badness(self.found.pairs[number].error))
        window = PageWindow(query.offset, query.limit)
        rows = chosen[window.slice]
        views = tuple(pair_view(number, self.found.pairs[number]) for number in rows)
        return wire.PairPage(len(chosen), window.offset, views)

    def unpaired(self, query: queries.UnpairedQuery) -> wire.UnpairedPage:
        words = query.query.lower().split()
        chosen = [
            each
            for each in self.found.unpaired
            if query.side in (None, each.side) and _has_words(each.name, words)
        ]
        window = PageWindow(query.offset, query.limit)
        rows = tuple(map(_unpaired, chosen[window.slice]))
        return wire.UnpairedPage(len(chosen), window.offset, rows)

    def marks(
        self, side: wire.Side, rank: int, index: GraphIndex, scope: str, group: str
    ) -> wire.LevelMarks:
        """The comparison status of each box of a level of the graph."""
        key = (side, rank, index.graph, index.is_summary)
        if key not in self._marks:
            self._marks[key] = _GraphMarks(index, self.found, side, rank)
        known = self._marks[key]
        boxes = [node for node in level(index, scope, group).nodes if node.what != "outside"]
        return wire.LevelMarks(tuple(known.of(box.path, box.members) for box in boxes))


def _has_op(pair: OpPair, side: wire.Side, op: str) -> bool:
    if not op:
        return True
    members = pair.members_a if side == "a" else pair.members_b
    return op == (pair.a if side == "a" else pair.b) or op in members


def _has_words(text: str, words: Sequence[str]) -> bool:
    folded = text.lower() if words else ""
    return all(word in folded for word in words)


def _badness(error: float) -> float:
    """Sort key: infinite errors first, pairs that could not be compared last."""
    return math.inf if math.isnan(error) else -error


class _GraphMarks:
    """The worst status of every node and scope of one graph."""

    def __init__(self, index: GraphIndex, found: RunComparison, side: wire.Side, rank: int) -> None:
        self._index = index
        worst = np.full(len(index), -1, np.int8)
        for pair in found.pairs:
            if pair.rank == rank:
                severity = SEVERITY.index(pair.status)
                for op in _ops(pair, side):
                    number = index.numbers.get(op)
                    if number is not None:
                        worst[number] = max(int(worst[number]), severity)
        self._nodes = worst
        self._scopes = self._by_scope(worst)
        first = np.zeros(len(index), np.int8)
        if found.first_divergence is not None and found.first_divergence.pair.rank == rank:
            pair = found.first_divergence.pair
            number = index.numbers.get(pair.a if side == "a" else pair.b)
            if number is not None:
                first[number] = 1
        self._first = first
        self._first_scopes = self._by_scope(first)

    def _by_scope(self, of_nodes: NDArray[np.int8]) -> NDArray[np.int8]:
        found = np.full(len(self._index.scopes), -1, np.int8)
        for row in self._index.ancestors:
            inside = row >= 0
            np.maximum.at(found, row[inside], of_nodes[inside])
        return found

    def of(self, path: str, members: Sequence[str]) -> wire.LevelMark:
        severity = is_first = -1
        for each in members or (path,):
            severity = max(severity, int(self._at(each, self._nodes, self._scopes)))
            is_first = max(is_first, int(self._at(each, self._first, self._first_scopes)))
        return wire.LevelMark(path, SEVERITY[severity] if severity >= 0 else None, is_first > 0)

    def _at(self, path: str, nodes: NDArray[np.int8], scopes: NDArray[np.int8]) -> np.int8:
        if path.endswith("/"):
            return scopes[self._index.scope(path)]  # type: ignore[no-any-return]
        number = self._index.numbers.get(path)
        return np.int8(-1) if number is None else nodes[number]


def _ops(pair: OpPair, side: wire.Side) -> Iterator[str]:
    yield pair.a if side == "a" else pair.b
    yield from pair.members_a if side == "a" else pair.members_b


def first_view(comparison: RunComparison) -> wire.FirstDivergence | None:
    found = comparison.first_divergence
    if found is None:
        return None
    number = next((n for n, pair in enumerate(comparison.pairs) if pair is found.pair), -1)
    pair = pair_view(number, found.pair)
    return copy_fields(found, wire.FirstDivergence, pair=pair, tensor=_tensors(found.tensor))


def pair_view(number: int, pair: OpPair) -> wire.PairView:
    return copy_fields(
        pair,
        wire.PairView,
        number=number,
        source_a=_source(pair.source_a),
        source_b=_source(pair.source_b),
        tensors=tuple(map(_tensors, pair.tensors)),
    )


def _tensors(pair: TensorPair) -> wire.PairedTensors:
    return wire.PairedTensors(
        copy_fields(pair.a, wire.PairedTensor),
        copy_fields(pair.b, wire.PairedTensor),
        to_wire(pair.error),
        None if pair.distances is None else distance_numbers(pair.distances),
        pair.layout or "",
        pair.problem or "",
    )


def _unpaired(each: Unpaired) -> wire.UnpairedView:
    return copy_fields(each, wire.UnpairedView, op=each.name, source=_source(each.source))


def _source(source: Source | None) -> SourceLine | None:
    return None if source is None else source_line(source)
