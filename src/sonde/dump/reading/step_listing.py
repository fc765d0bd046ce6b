"""The contents of one step directory, before its ops are looked up in the graph."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from sonde.core.errors import DumpError
from sonde.core.graph import LEAF_TYPES, OpNode
from sonde.core.keys import Io
from sonde.core.operators.patterns import NamedOp
from sonde.dump import layout
from sonde.dump.bounded_file import read_bytes
from sonde.dump.file_names import read_mapping
from sonde.dump.op_names import OpText
from sonde.dump.reading.directories import FOREIGN, DumpProblem, StepDir
from sonde.dump.reading.statistic_rows import StatisticRow, read_rows

MAX_TEXT_BYTES = 1 << 30
_LEAF_TYPE_NAMES = frozenset(LEAF_TYPES.values())


@dataclass(slots=True)
class Item:
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

    @property
    def named(self) -> NamedOp:
        """What patterns select it by. A scope that is not in the graph is part of the name."""
        scope = None if self.node is None else self.node.scope
        return NamedOp(self.name, self.op_type, scope, self.op_type in _LEAF_TYPE_NAMES)


@dataclass(slots=True)
class Listing:
    """The tensor files, rows and argument files of ``path``, as they come."""

    path: Path
    items: list[Item]
    rows: list[Item]
    arguments: dict[str, Path]
    problems: list[DumpProblem]
    ops: dict[tuple[str, str, bool], OpText] = field(default_factory=dict)

    def op(self, op_type: str, op_name: str, *, is_full: bool) -> OpText:
        """One string object per text, because most ops have several files."""
        key = (op_type, op_name, is_full)
        found = self.ops.get(key)
        if found is None:
            found = self.ops[key] = OpText(op_type, op_name, is_full)
        return found


def list_stored(step: StepDir) -> Listing:
    """The contents of a step of a dump by Sonde, from its directory or from Parquet files."""
    if step.stored is None:
        return list_step(step.path)
    listing = list_step(step.path) if step.path.is_dir() else Listing(step.path, [], [], {}, [])
    _add_stored(step, None, listing)
    return listing


def list_step(path: Path) -> Listing:
    """Read the names in a directory, its ``mapping.csv`` and ``statistic.csv``; nothing else."""
    listing = Listing(path, [], [], {}, [])
    try:
        names = os.listdir(path)
    except OSError as error:
        listing.problems.append(DumpProblem(path, f"cannot be listed: {error.strerror}"))
        return listing
    mapping: dict[str, str] = {}
    if layout.MAPPING in names:
        mapping = read_mapping(_read(path / layout.MAPPING, listing))
    partial = 0
    for name in names:
        if layout.is_partial(name):
            partial += 1
        elif name == layout.STATISTIC:
            _add_rows(_read(path / name, listing), listing)
        elif name not in (layout.MAPPING, layout.OVERFLOW):
            _add_file(path, name, mapping, listing)
    if partial:
        what = "file was" if partial == 1 else "files were"
        listing.problems.append(
            DumpProblem(path, f"{partial} {what} being written when the dump ended")
        )
    return listing


def list_op(step: StepDir, op_type: str, op_name: str) -> Listing | None:
    """The part of ``list_stored`` for one op, without reading the files of others.

    None where the whole directory must be read: with a ``mapping.csv``, or after an error.
    """
    path = step.path
    listing = Listing(path, [], [], {}, [])
    try:
        names = os.listdir(path) if step.stored is None or path.is_dir() else []
    except OSError:
        return None
    if layout.MAPPING in names:
        return None
    start = f"{layout.escape_op(op_type, op_name)}."
    for name in names:
        if name.startswith(start) and name.endswith(".npy"):
            _add_file(path, name, {}, listing)
    # Another name may continue with a dot where this one ends.
    listing.items = [item for item in listing.items if f"{item.op.escaped}." == start]
    if layout.STATISTIC in names:
        _take_rows(_read(path / layout.STATISTIC, listing), op_type, op_name, listing)
    if step.stored is not None:
        _add_stored(step, op_name, listing)
    return None if listing.problems else listing


def _take_rows(text: str, op_type: str, op_name: str, listing: Listing) -> None:
    """The rows of an op, found by how they begin."""
    head = layout.statistic_row_parts(op_type, op_name, "output", 0, 0, "", ())[0]
    lines = [text[: text.find("\n") + 1]]
    place = text.find(f"\n{head}")
    while place >= 0:
        end = text.find("\n", place + 1) + 1
        if not end:
            break
        lines.append(text[place + 1 : end])
        place = text.find(f"\n{head}", end - 1)
    _add_rows("".join(lines), listing)


def _add_file(path: Path, name: str, mapping: dict[str, str], listing: Listing) -> None:
    is_short = layout.is_short_name(name)
    full = mapping.get(name, name) if is_short else name
    parsed = layout.parse_tensor_file_name(full)
    if parsed is not None:
        listing.items.append(
            Item(
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
        listing.problems.append(
            DumpProblem(path / name, f"{layout.MAPPING} does not say what it is")
        )
    else:
        listing.problems.append(DumpProblem(path / name, FOREIGN, is_foreign=True))


def _add_rows(text: str, listing: Listing) -> None:
    file = read_rows(text)
    place = listing.path / layout.STATISTIC
    listing.problems.extend(DumpProblem(place, problem) for problem in file.problems)
    listing.rows = [_item(row, listing) for row in file.rows]


def _add_stored(step: StepDir, op_name: str | None, listing: Listing) -> None:
    """Add the rows of Parquet files, of all ops or of one."""
    assert step.stored is not None
    try:
        rows = step.stored.read(op_name)
    except DumpError as error:
        listing.problems.append(DumpProblem.of(step.stored.directory, error))
    else:
        listing.rows = [_item(row, listing) for row in rows]


def _item(row: StatisticRow, listing: Listing) -> Item:
    return Item(
        listing.op(row.op_type, row.op_name, is_full=True),
        row.io,
        row.slot,
        row.timestamp,
        layout.DEFAULT_FORMAT,
        None,
        None,
        row,
    )


def _read(path: Path, listing: Listing) -> str:
    try:
        return read_bytes(path, MAX_TEXT_BYTES, slug="dump-file").decode("utf-8", "replace")
    except DumpError as error:
        listing.problems.append(DumpProblem.of(path, error))
        return ""
