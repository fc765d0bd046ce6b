"""The files of one step directory as records, in execution order."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sonde.core.errors import DumpError
from sonde.core.keys import Io, TensorKey
from sonde.core.operators.patterns import OpPattern, selects
from sonde.dump import layout
from sonde.dump.graph_files.pb import GraphFile
from sonde.dump.op_names import OpNames
from sonde.dump.reading.directories import DumpProblem, StepDir, StepSource
from sonde.dump.reading.step_listing import Item, Listing, list_op, list_stored
from sonde.dump.tensor_record import TensorRecord


@dataclass(frozen=True, slots=True)
class KnownGraph:
    """A graph and the texts its ops have in file names."""

    file: GraphFile
    names: OpNames
    positions: dict[str, int]

    @classmethod
    def of(cls, file: GraphFile) -> KnownGraph:
        positions = {node.name: position for position, node in enumerate(file.graph)}
        return cls(file, OpNames(file.graph), positions)


@dataclass(frozen=True, slots=True)
class StepIndex:
    """Every tensor of one step directory, in execution order, and what could not be read."""

    step: StepDir
    items: tuple[Item, ...]
    arguments: dict[str, Path]
    is_by_sonde: bool
    problems: tuple[DumpProblem, ...]

    def records(
        self, *, pattern: OpPattern | None = None, io: Io | None = None
    ) -> Iterator[TensorRecord]:
        """The selected records, created one by one."""
        matches: dict[str, bool] = {}
        for item in self.items:
            if io is not None and item.io != io:
                continue
            if pattern is not None:
                if (wanted := matches.get(item.name)) is None:
                    wanted = matches[item.name] = selects((pattern,), *item.named)
                if not wanted:
                    continue
            yield self._record(item)

    def _record(self, item: Item) -> TensorRecord:
        step = self.step
        return TensorRecord(
            TensorKey(step.step, item.order, item.name, item.io, item.slot),
            step.rank,
            step.net,
            step.graph_id,
            item.op_type,
            item.timestamp,
            item.format,
            item.label,
            step.path,
            item.file,
            item.node,
            item.row,
            shape_from_graph=not self.is_by_sonde,
        )


def index_step(
    step: StepDir, graphs: Sequence[KnownGraph], source: StepSource | None = None
) -> StepIndex:
    """List the directory. ``graphs``: the step's own, or all of the rank where that is unknown.
    ``source`` reads the step if it is in a layout of another program."""
    if source is None:
        listing = list_stored(step)
    else:
        try:
            listing = source.listing(step)
        except DumpError as error:
            listing = Listing(step.path, [], [], {}, [DumpProblem.of(step.path, error)])
    graph = _best_graph(graphs, listing.items or listing.rows)
    _name(listing.items, graph, listing)
    _name(listing.rows, graph, listing)
    items = _with_rows(listing.items, listing.rows)
    is_ours = graph is not None and graph.file.writer != "mindspore"
    _order(items, graph.positions if graph is not None and is_ours else None)
    items.sort(key=_place)
    return StepIndex(step, tuple(items), listing.arguments, is_ours, tuple(listing.problems))


def index_op(step: StepDir, op_type: str, op_name: str, order: int) -> tuple[Item, ...] | None:
    """The items ``index_step`` has for one op of a dump by Sonde, found without the others.

    ``order`` is its place in the graph. None where the whole directory must be read.
    """
    listing = list_op(step, op_type, op_name)
    if listing is None:
        return None
    for item in (*listing.items, *listing.rows):
        item.name, item.order = op_name, order
    return tuple(sorted(_with_rows(listing.items, listing.rows), key=_place))


def _place(item: Item) -> tuple[int, int, str, int]:
    return item.order, item.timestamp, item.io, item.slot


def _best_graph(graphs: Sequence[KnownGraph], items: Sequence[Item]) -> KnownGraph | None:
    """The graph that has most of the ops; the first of equals."""
    if len(graphs) <= 1:
        return graphs[0] if graphs else None
    texts = {item.op for item in items}
    return max(graphs, key=lambda graph: len(graph.names.resolve(texts)))


def _name(items: Sequence[Item], graph: KnownGraph | None, listing: Listing) -> None:
    found = graph.names.resolve({item.op for item in items}) if graph is not None else {}
    for item in items:
        item.node = found.get(item.op)
        item.name = item.node.name if item.node is not None else item.op.op_name
    if graph is not None and len(found) < len({item.op for item in items}):
        _name_by_time(items, graph, listing)


def _name_by_time(items: Sequence[Item], graph: KnownGraph, listing: Listing) -> None:
    """Distinguish ops with the same escaped text by the time they ran, else leave them unnamed.

    An op ran after those before it in the graph and before those after it; that holds for graphs
    by Sonde.
    """
    if graph.file.writer != "sonde":
        return
    named = sorted((i.timestamp, graph.positions[i.name]) for i in items if i.node is not None)
    times = [time for time, _ in named]
    for item in items:
        candidates = graph.names.candidates(item.op) if item.node is None else []
        if not candidates:
            continue
        index = bisect_left(times, item.timestamp)
        first = named[index - 1][1] if index else -1
        last = named[index][1] if index < len(named) else len(graph.positions)
        fitting = [node for node in candidates if first < graph.positions[node.name] < last]
        if len(fitting) == 1:
            item.node, item.name = fitting[0], fitting[0].name
        else:
            item.name = f"{item.op.op_name}?"
            names = ", ".join(node.name for node in candidates)
            listing.problems.append(
                DumpProblem(
                    listing.path / (item.file or layout.STATISTIC), f"may belong to {names}"
                )
            )


def _with_rows(items: list[Item], rows: Sequence[Item]) -> list[Item]:
    """Rows joined to the files of the same tensors; rows without a file are items of their own."""
    if not rows:
        return items
    by_time = {(item.name, item.io, item.slot, item.timestamp): item for item in items}
    by_slot: dict[tuple[str, Io, int], list[Item]] = {}
    for item in items:
        by_slot.setdefault((item.name, item.io, item.slot), []).append(item)
    alone: list[Item] = []
    for row in rows:
        file = by_time.get((row.name, row.io, row.slot, row.timestamp))
        if file is None:
            same = by_slot.get((row.name, row.io, row.slot), [])
            file = same[0] if len(same) == 1 else None
        if file is None or file.row is not None:
            alone.append(row)
        else:
            file.row = row.row
    return items + alone


def _order(items: list[Item], positions: dict[str, int] | None) -> None:
    """Give each item the place of its op in the step.

    ``positions`` is the order of a graph that is the order it ran in. Else each run of an op gets
    a number by time: a run is over when another op follows, or one of its slots comes again.
    """
    if positions is not None and all(item.name in positions for item in items):
        for item in items:
            item.order = positions[item.name]
        return
    order, current = -1, None
    seen: set[tuple[Io, int]] = set()
    for item in sorted(items, key=lambda item: (item.timestamp, item.name, item.io, item.slot)):
        place = (item.io, item.slot)
        if item.name != current or place in seen:
            order, current = order + 1, item.name
            seen.clear()
        seen.add(place)
        item.order = order
