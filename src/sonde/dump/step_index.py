"""The files of one step directory as records, in execution order."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sonde.core.graph import LEAF_TYPES, OpNode
from sonde.core.keys import Io, TensorKey
from sonde.core.selection import OpPattern
from sonde.dump import layout
from sonde.dump.graph_pb import GraphFile
from sonde.dump.name_book import read_mapping
from sonde.dump.op_names import OpNames, OpText
from sonde.dump.record import TensorRecord
from sonde.dump.rows import StatisticRow, read_rows
from sonde.dump.tree import Problem, StepDir

MAX_TEXT_BYTES = 1 << 30
_LEAF_TYPE_NAMES = frozenset(LEAF_TYPES.values())


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


@dataclass(slots=True)
class _Item:
    """A tensor file, a row, or both; ``name`` and ``order`` are found once all items are known."""

    op: OpText
    io: Io
    slot: int
    timestamp: int
    format: str
    label: str | None
    file: str | None
    row: StatisticRow | None
    name: str = ""
    node: OpNode | None = None
    order: int = 0

    @property
    def op_type(self) -> str:
        return self.node.type if self.node is not None else self.op.op_type


@dataclass(frozen=True, slots=True)
class StepIndex:
    """Every tensor of one step directory, in execution order, and what could not be read."""

    step: StepDir
    items: tuple[_Item, ...]
    arguments: dict[str, Path]
    is_by_sonde: bool
    problems: tuple[Problem, ...]

    def records(
        self, *, pattern: OpPattern | None = None, io: Io | None = None
    ) -> Iterator[TensorRecord]:
        """The records wanted; each is made when its turn comes."""
        matches: dict[str, bool] = {}
        for item in self.items:
            if io is not None and item.io != io:
                continue
            if pattern is not None:
                if (wanted := matches.get(item.name)) is None:
                    is_leaf = item.op_type in _LEAF_TYPE_NAMES
                    wanted = pattern.matches(item.name, item.op_type, is_leaf=is_leaf)
                    matches[item.name] = wanted
                if not wanted:
                    continue
            yield self._record(item)

    def _record(self, item: _Item) -> TensorRecord:
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


def index_step(step: StepDir, graphs: Sequence[KnownGraph]) -> StepIndex:
    """List the directory. ``graphs``: the step's own, or all of the rank where that is unknown."""
    listing = _list(step.path)
    graph = _best_graph(graphs, listing.items or listing.rows)
    _name(listing.items, graph)
    _name(listing.rows, graph)
    items = _with_rows(listing.items, listing.rows)
    is_ours = graph is not None and graph.file.writer == "sonde"
    _order(items, graph.positions if graph is not None and is_ours else None)
    items.sort(key=_place)
    return StepIndex(step, tuple(items), listing.arguments, is_ours, tuple(listing.problems))


def _place(item: _Item) -> tuple[int, int, str, int]:
    return item.order, item.timestamp, item.io, item.slot


@dataclass(slots=True)
class _Listing:
    items: list[_Item]
    rows: list[_Item]
    arguments: dict[str, Path]
    problems: list[Problem]
    ops: dict[tuple[str, str, bool], OpText] = field(default_factory=dict)

    def op(self, op_type: str, op_name: str, *, is_full: bool) -> OpText:
        """The one object for this text: most ops have several files."""
        key = (op_type, op_name, is_full)
        found = self.ops.get(key)
        if found is None:
            found = self.ops[key] = OpText(op_type, op_name, is_full)
        return found


def _list(path: Path) -> _Listing:
    listing = _Listing([], [], {}, [])
    try:
        names = os.listdir(path)
    except OSError as error:
        listing.problems.append(Problem(path, f"cannot be listed: {error.strerror}"))
        return listing
    mapping: dict[str, str] = {}
    if layout.MAPPING in names:
        mapping = read_mapping(_read(path / layout.MAPPING, listing))
    partial = 0
    for name in names:
        if layout.is_partial(name):
            partial += 1
        elif name == layout.STATISTIC:
            _add_rows(path / name, listing)
        elif name not in (layout.MAPPING, layout.OVERFLOW):
            _add_file(path, name, mapping, listing)
    if partial:
        what = "file was" if partial == 1 else "files were"
        listing.problems.append(
            Problem(path, f"{partial} {what} being written when the dump ended")
        )
    return listing


def _add_file(path: Path, name: str, mapping: dict[str, str], listing: _Listing) -> None:
    is_short = layout.is_short_name(name)
    full = mapping.get(name, name) if is_short else name
    parsed = layout.parse_tensor_file_name(full)
    if parsed is not None:
        listing.items.append(
            _Item(
                listing.op(parsed.op_type, parsed.op_name, is_full=is_short),
                parsed.io,
                parsed.slot,
                parsed.timestamp,
                parsed.format,
                parsed.dtype_label,
                name,
                None,
            )
        )
    elif full.endswith(".json") and "." in full[:-5]:
        listing.arguments[full[:-5]] = path / name
    elif is_short and full is name:
        listing.problems.append(Problem(path / name, f"{layout.MAPPING} does not say what it is"))
    else:
        listing.problems.append(Problem(path / name, "is not part of a dump"))


def _add_rows(path: Path, listing: _Listing) -> None:
    file = read_rows(_read(path, listing))
    listing.problems.extend(Problem(path, problem) for problem in file.problems)
    listing.rows = [
        _Item(
            listing.op(row.op_type, row.op_name, is_full=True),
            row.io,
            row.slot,
            row.timestamp,
            layout.DEFAULT_FORMAT,
            None,
            None,
            row,
        )
        for row in file.rows
    ]


def _read(path: Path, listing: _Listing) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_TEXT_BYTES + 1)
    except OSError as error:
        listing.problems.append(Problem(path, f"cannot be read: {error.strerror}"))
        return ""
    if len(data) > MAX_TEXT_BYTES:
        listing.problems.append(Problem(path, "is too large to be read"))
        return ""
    return data.decode("utf-8", "replace")


def _best_graph(graphs: Sequence[KnownGraph], items: Sequence[_Item]) -> KnownGraph | None:
    """Of several graphs the one that knows most of the ops; the first of equals."""
    if len(graphs) <= 1:
        return graphs[0] if graphs else None
    texts = {item.op for item in items}
    return max(graphs, key=lambda graph: len(graph.names.resolve(texts)))


def _name(items: Sequence[_Item], graph: KnownGraph | None) -> None:
    found = graph.names.resolve({item.op for item in items}) if graph is not None else {}
    for item in items:
        item.node = found.get(item.op)
        item.name = item.node.name if item.node is not None else item.op.op_name


def _with_rows(items: list[_Item], rows: Sequence[_Item]) -> list[_Item]:
    """Rows joined to the files of the same tensors; rows without a file stand for themselves."""
    if not rows:
        return items
    by_time = {(item.name, item.io, item.slot, item.timestamp): item for item in items}
    by_slot: dict[tuple[str, Io, int], list[_Item]] = {}
    for item in items:
        by_slot.setdefault((item.name, item.io, item.slot), []).append(item)
    alone: list[_Item] = []
    for row in rows:
        twin = by_time.get((row.name, row.io, row.slot, row.timestamp))
        if twin is None:
            same = by_slot.get((row.name, row.io, row.slot), [])
            twin = same[0] if len(same) == 1 else None
        if twin is None or twin.row is not None:
            alone.append(row)
        else:
            twin.row = row.row
    return items + alone


def _order(items: list[_Item], positions: dict[str, int] | None) -> None:
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
