"""Reads the Parquet files with the statistics of a rank, while a training writes them or later."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar, cast

from sonde.core.errors import DumpError
from sonde.core.keys import Io
from sonde.core.statistics import HASHES
from sonde.dump.reading.statistic_rows import Number, StatisticRow, parse_shape
from sonde.dump.statistic_store import engine
from sonde.dump.statistic_store.columns import COLUMN_OF, IS_TENSOR, NON_FINITE, hash_text
from sonde.dump.statistic_store.files import StoreFile, list_files, read_listed

T = TypeVar("T")

_OP = ("type", "name", "io", "slot", "bytes", "dtype", "shape")


@dataclass(frozen=True, slots=True)
class StoredStep:
    """A step that has rows in the files of ``directory``: of which graph, how many, and their share
    of the file."""

    directory: Path
    step: int
    graph: int
    rows: int
    nbytes: int

    def files(self) -> tuple[Path, ...]:
        """The files that may have rows of the step."""
        files = list_files(self.directory, "rows")
        return tuple(each.path for each in files if each.first <= self.step <= each.last)

    def read(self, op: str | None = None) -> tuple[StatisticRow, ...]:
        """The rows of the step, or of one op in it, in the order in which the ops ran."""
        return _read(self.directory, lambda files: _rows_of(self.directory, files, self.step, op))


def stored_steps(directory: Path) -> tuple[StoredStep, ...]:
    """The steps that have rows in a directory; DumpError if a file cannot be read."""
    if not list_files(directory, "rows"):
        return ()
    return _read(directory, lambda files: tuple(chain.from_iterable(map(_steps_of, files))))


def tensor_over_steps(
    directory: Path, op: str, io: str, slot: int
) -> tuple[tuple[int, StatisticRow], ...]:
    """The rows of one tensor in all steps of a directory, by step; of thinned steps the medians."""
    return _read(directory, lambda files: _series_of(directory, files, (op, io, slot)))


def non_finite_steps(directory: Path) -> frozenset[int]:
    """The steps in which a tensor has NaN or Inf. No row of other steps is read."""

    def read(files: tuple[StoreFile, ...]) -> frozenset[int]:
        source = engine.files_of(each.path for each in files)
        query = f"select distinct step from {source} where {NON_FINITE} > 0 and {IS_TENSOR}"
        found = engine.shared_connection().execute(query).fetchall() if files else []
        return frozenset(step for (step,) in found)

    return _read(directory, read)


def _read(directory: Path, read: Callable[[tuple[StoreFile, ...]], T]) -> T:
    engine.shared_connection()  # DumpError if DuckDB is missing
    try:
        return read_listed(directory, "rows", read)
    except engine.failure() as error:
        reason = str(error).splitlines()[0]
        raise DumpError(f"{directory}: cannot be read: {reason}", slug="dump-file") from None


def _steps_of(file: StoreFile) -> Sequence[StoredStep]:
    status = file.path.stat()
    return _known_steps(file.path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=4096)
def _known_steps(path: Path, _: int, size: int) -> Sequence[StoredStep]:
    """The steps of one file; it does not change, but a later run may write one of its name."""
    query = (
        f"select step, any_value(graph), count(*) from {engine.files_of([path])} "
        f"where {IS_TENSOR} group by step order by step"
    )
    found = engine.shared_connection().execute(query).fetchall()
    total = sum(rows for _, _, rows in found)
    return [
        StoredStep(path.parent, step, graph, rows, size * rows // total)
        for step, graph, rows in found
    ]


def _rows_of(
    directory: Path, files: Sequence[StoreFile], step: int, op: str | None
) -> tuple[StatisticRow, ...]:
    paths = [each.path for each in files if each.first <= step <= each.last]
    ops = [each.path for each in list_files(directory, "ops")]
    if not paths or not ops:
        return ()
    names = ", ".join(f"ops.{name}" for name in _OP)
    query = (
        f"select {names}, found.* exclude (step, graph, op, position) from "
        f"(select * from {engine.files_of(paths)} where step = ? and {IS_TENSOR}) as found "
        f"join {engine.files_of(ops)} as ops on found.op = ops.id "
    )
    arguments: list[object] = [step]
    if op is not None:
        query += "where ops.name = ? "
        arguments.append(op)
    return tuple(row for _, row in _rows(f"{query} order by found.position", arguments))


def _series_of(
    directory: Path, files: Sequence[StoreFile], tensor: tuple[str, str, int]
) -> tuple[tuple[int, StatisticRow], ...]:
    ops = [each.path for each in list_files(directory, "ops")]
    if not files or not ops:
        return ()
    table = engine.files_of(ops)
    query = f"select id from {table} where name = ? and io = ? and slot = ?"
    numbers = engine.shared_connection().execute(query, list(tensor)).fetchall()
    if not numbers:
        return ()
    names = ", ".join(f"ops.{name}" for name in _OP)
    wanted = ", ".join(str(number) for (number,) in numbers)  # so that other row groups are skipped
    source = engine.files_of(each.path for each in files)
    return _rows(
        f"select {names}, found.* exclude (graph, op, position) from "
        f"(select * from {source} where op in ({wanted}) and {IS_TENSOR}) as found "
        f"join {table} as ops on found.op = ops.id order by found.step",
        (),
    )


def _rows(query: str, arguments: Sequence[object]) -> tuple[tuple[int, StatisticRow], ...]:
    """The rows of a query, each with its step if the query has it."""
    result = engine.shared_connection().execute(query, list(arguments))
    columns = [column[0] for column in result.description]
    categories = [
        (columns.index(column), category)
        for category, column in COLUMN_OF.items()
        if column in columns
    ]
    time = columns.index("time")
    step = columns.index("step") if "step" in columns else time
    return tuple((row[step], _row(row, time, categories)) for row in result.fetchall())


def _row(values: Sequence[Any], time: int, categories: Iterable[tuple[int, str]]) -> StatisticRow:
    op_type, name, io, slot, nbytes, dtype, shape = values[: len(_OP)]
    numbers: dict[str, Number] = {}
    for place, category in categories:
        value = values[place]
        if value is not None:
            numbers[category] = hash_text(value) if category in HASHES else value
    return StatisticRow(
        op_type,
        name,
        values[time],
        cast(Io, io),
        slot,
        nbytes,
        dtype,
        parse_shape(shape),
        numbers,
        is_single=True,
    )
