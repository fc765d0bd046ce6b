"""The statistics of a run as a database: SQL, series, and matrices of layers by steps."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sonde.core.errors import DumpError, UsageError
from sonde.core.settings import nearest
from sonde.core.text.terminal_text import quoted
from sonde.dump.statistic_store import engine
from sonde.dump.statistic_store.columns import STATISTICS
from sonde.dump.statistic_store.files import list_files
from sonde.trends.places import statistic_directories
from sonde.trends.views import (
    DERIVED,
    LAYER_STATISTICS,
    cell_rows,
    last_step,
    layer_cells,
    rank_union,
    value_of,
    view_statements,
)

_LAYERS = LAYER_STATISTICS.values()
_STEPS_AT_ONCE = 500
"""The steps whose cells are in memory at a time."""


@dataclass(frozen=True, slots=True)
class ResultTable:
    """The result of a query: the names of its columns, and its rows."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True, slots=True)
class StepSeries:
    """One statistic over steps; where several steps are one point, its least and greatest value.

    ``steps`` has the first step of each point.
    """

    steps: NDArray[np.int64]
    values: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class LayerMatrix:
    """One statistic of layers (rows, in the order they first ran) by steps (columns).

    ``steps`` has the first step of each column. A cell of several steps has the greatest value, so
    that no peak is lost, and NaN is greater than every number; a cell that is not known is NaN.
    """

    layers: tuple[str, ...]
    steps: NDArray[np.int64]
    values: NDArray[np.float64]
    is_known: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class CellTensor:
    """A tensor whose value is part of a cell of layers by steps; ``value`` None: it has none."""

    op: str
    type: str
    phase: str
    io: str
    slot: int
    step: int
    value: float | None


class TrendDatabase:
    """The statistics in the Parquet files of a dump, or of one of its ranks.

    ``refresh`` sees the files that a running training has written since. May be used from several
    threads, one at a time. DumpError if there are no such files, or DuckDB is not installed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.RLock()
        self._connection = engine.connect()
        self._listed: dict[int, tuple[Path, ...]] = {}
        self._columns: frozenset[str] = frozenset()
        self._steps: tuple[int, int] | None = None  # of the files that are listed
        self._longest: int | None = None  # as well
        engine.confine(self._connection, (path, *statistic_directories(path).values()))
        self.refresh()

    def close(self) -> None:
        self._connection.close()

    @property
    def ranks(self) -> tuple[int, ...]:
        return tuple(self._listed)

    def refresh(self) -> None:
        """Take notice of new files; cheap if there are none."""
        with self._lock:
            while True:
                directories = statistic_directories(self.path)
                listed = {rank: _paths(each, "rows") for rank, each in directories.items()}
                listed = {rank: paths for rank, paths in listed.items() if paths}
                if not listed:
                    raise DumpError(
                        f"{self.path} has no statistics in Parquet files; sonde run --stats writes "
                        'them, and "statistic_format": "parquet" in a dump configuration',
                        slug="no-trends",
                    )
                if listed == self._listed:
                    return
                try:
                    self._open(listed, {rank: _paths(directories[rank], "ops") for rank in listed})
                except engine.failure() as error:
                    if all(path.exists() for paths in listed.values() for path in paths):
                        raise DumpError(
                            f"{self.path}: cannot be read: {_first_line(error)}", slug="dump-file"
                        ) from None
                else:
                    self._listed, self._steps, self._longest = listed, None, None
                    return

    def _open(self, rows: dict[int, tuple[Path, ...]], ops: dict[int, tuple[Path, ...]]) -> None:
        run = self._connection.execute
        run(f"create or replace table ops as {rank_union(ops)}")
        run(f"create or replace view rows as {rank_union(rows)}")
        described = run("describe rows").fetchall()
        self._columns = frozenset(str(row[0]) for row in described)
        for statement in view_statements(self._columns):
            run(statement)

    def query(self, sql: str, arguments: Sequence[object] = ()) -> ResultTable:
        """The result of one query; UsageError if DuckDB cannot answer it, or if it would write or
        read anything but the files of this run."""
        with self._lock:
            result = self._execute(sql, arguments)
            columns = tuple(column[0] for column in result.description or ())
            return ResultTable(columns, tuple(result.fetchall()) if columns else ())

    def frame(self, sql: str) -> Any:
        """The result of a query as a pandas DataFrame; UsageError without pandas."""
        if find_spec("pandas") is None:
            raise UsageError("a DataFrame needs pandas; pip install pandas", slug="pandas-missing")
        with self._lock:
            return self._execute(sql, ()).df()

    def _execute(self, sql: str, arguments: Sequence[object]) -> Any:
        sql = sql.encode(errors="replace").decode()  # Words of a command need not be UTF-8.
        for _ in range(3):
            try:
                if not engine.is_reading_query(self._connection, sql):
                    raise UsageError(
                        "give one query that reads: SELECT, FROM, PIVOT, DESCRIBE or SUMMARIZE",
                        slug="query-not-reading",
                    )
                return self._connection.execute(sql, list(arguments))
            except engine.failure() as error:
                found = error
                if all(path.exists() for paths in self._listed.values() for path in paths):
                    break
                self.refresh()  # A file was replaced by one that has more.
        raise UsageError(
            f"the query cannot be answered: {_first_line(found)}; 'sonde query {self.path}' lists "
            "the tables and their columns",
            slug="query-failed",
        )

    def steps(self) -> tuple[int, int]:
        """The first and the last step that has rows."""
        with self._lock:
            if self._steps is None:
                found = self.query("select min(step), max(step) from rows").rows[0]
                self._steps = int(found[0]), int(found[1])
            return self._steps

    def _longest_row(self) -> int:
        """By how much at most the last step that a row stands for is later than its first."""
        with self._lock:
            if self._longest is None:
                sql = f"select max({last_step(self._columns)} - rows.step) from rows"
                is_thinned = "last_step" in self._columns
                self._longest = int(self.query(sql).rows[0][0]) if is_thinned else 0
            return self._longest

    def step_count(self, rank: int = 0) -> int:
        """About how many steps of a rank have rows."""
        sql = "select approx_count_distinct(step) from rows where rank = ?"
        return int(self.query(sql, (rank,)).rows[0][0])

    def series(
        self,
        op: str,
        statistic: str,
        *,
        io: str = "output",
        slot: int = 0,
        rank: int = 0,
        points: int = 2000,
    ) -> StepSeries:
        """One statistic of one tensor, in at most ``points`` points."""
        self._refuse_unknown(statistic, (*STATISTICS, *DERIVED))
        first, last = self.steps()
        width = (last - first) // points + 1
        value, low, high = (
            f"({value_of(statistic, self._columns, suffix)})::double"
            for suffix in ("", "_low", "_high")
        )
        found = self.query(
            f"select min(rows.step), median({value}), min({low}), max({high}) from rows join ops "
            "on rows.rank = ops.rank and rows.op = ops.id where ops.name = ? and ops.io = ? and "
            "ops.slot = ? and rows.rank = ? "
            f"group by (rows.step - {first}) // {width} order by 1",
            (op, io, slot, rank),
        ).rows
        return _series(found)

    def layer_matrix(
        self,
        statistic: str,
        *,
        first: int | None = None,
        last: int | None = None,
        columns: int = 1000,
        rank: int = 0,
    ) -> LayerMatrix:
        """A statistic of every layer from step ``first`` to ``last``, in at most ``columns``. A
        thinned row is the value of all steps that it stands for and that have no row of their
        own."""
        self._refuse_unknown(statistic, LAYER_STATISTICS)
        bounds = self.steps()
        start = bounds[0] if first is None else first
        end = bounds[1] if last is None else last
        width = max((end - start) // columns + 1, 1)
        names = self.query(
            "select distinct number, layer from layer_ops where rank = ? order by number", (rank,)
        ).rows
        places = np.array([row[0] for row in names], np.int64)
        values = np.full((len(names), max((end - start) // width + 1, 0)), -np.inf)
        thinned = values.copy() if self._longest_row() else values[:, :0]
        cells = layer_cells(LAYER_STATISTICS[statistic], self._columns)
        for part in self._parts(start - self._longest_row(), end, rank):
            with self._lock:
                found = self._execute(cells, (rank, *part, start)).fetchnumpy()
            rows = np.searchsorted(places, found["number"])
            column = (found["step"] - start) // width
            numbers = _filled(found["value"])
            if thinned.size:
                last = (np.minimum(found["last_step"], end) - start) // width
                _fill_between(thinned, rows, column, np.asarray(last, np.int64), numbers)
                inside = column >= 0
                rows, column, numbers = rows[inside], column[inside], numbers[inside]
            # NaN is greater than every number. DuckDB would take several times as long to group.
            np.maximum.at(values, (rows, column), numbers)
        if thinned.size:
            values = np.where(values == -np.inf, thinned, values)
        is_known = values != -np.inf
        values[~is_known] = np.nan
        rows = np.flatnonzero(is_known.any(axis=1))
        layers = tuple(names[row][1] for row in rows)
        steps = start + width * np.arange(values.shape[1])
        return LayerMatrix(layers, steps, values[rows], is_known[rows])

    def _parts(self, first: int, last: int, rank: int) -> list[tuple[int, int]]:
        """Ranges that together have all rows from step ``first`` to ``last``. Steps may be far
        apart: each range has at most so many that have rows."""
        if last - first < _STEPS_AT_ONCE:
            return [(first, last)]
        sql = "select distinct step from rows where rank = ? and step between ? and ? order by step"
        steps = [row[0] for row in self.query(sql, (rank, first, last)).rows]
        chosen = range(0, len(steps), _STEPS_AT_ONCE)
        return [(steps[at], steps[min(at + _STEPS_AT_ONCE, len(steps)) - 1]) for at in chosen]

    def layer_count(self, rank: int = 0) -> int:
        """How many layers have rows."""
        sql = "select count(distinct layer) from layer_ops where rank = ?"
        return int(self.query(sql, (rank,)).rows[0][0])

    def layer_statistics(self, rank: int = 0) -> frozenset[str]:
        """The statistics of layers that are recorded."""
        tests = ", ".join(
            f"coalesce(bool_or({each.needed_ops or each.ops}), false)" for each in _LAYERS
        )
        parts = self.query(f"select {tests} from layer_ops where rank = ?", (rank,)).rows[0]
        return frozenset(
            name
            for (name, each), has_ops in zip(LAYER_STATISTICS.items(), parts, strict=True)
            if has_ops and each.is_recorded(self._columns)
        )

    def cell_tensors(
        self, statistic: str, layer: str, first: int, last: int, *, rank: int = 0, most: int = 50
    ) -> list[CellTensor]:
        """The tensors that a statistic of a layer is computed from in these steps, the greatest
        value of each, the greatest first."""
        self._refuse_unknown(statistic, LAYER_STATISTICS)
        sql = cell_rows(LAYER_STATISTICS[statistic], self._columns)
        found = self.query(f"{sql} limit {most}", (rank, layer, last, first)).rows
        return [CellTensor(*row) for row in found]

    def signals(self, rank: int = 0) -> dict[str, StepSeries]:
        """The signals of a guarded training, by name, in the steps in which each is known."""
        columns = (value_of("avg", self._columns, suffix) for suffix in ("", "_low", "_high"))
        value, low, high = (f"({each})::double" for each in columns)
        return self._series_by_name(
            f"select ops.name, rows.step, {value}, {low}, {high} from rows join ops on "
            "rows.rank = ops.rank and rows.op = ops.id where ops.kind = 'signal' "
            f"and rows.rank = ? and {value} is not null order by ops.name, rows.step",
            rank,
        )

    def step_seconds(self, rank: int = 0) -> StepSeries:
        """The time from the first op of each step to that of the next recorded one, by step."""
        found = self._series_by_name(
            "with times as (select step, min(time) as time from rows where rank = ? group by "
            "step), found as (select step, (lead(time) over (order by step) - time) / 1e6 / "
            "(lead(step) over (order by step) - step) as seconds from times) select '', "
            "step, seconds, seconds, seconds from found where seconds is not null order by step",
            rank,
        )
        return found.get("", _series(()))

    def _series_by_name(self, sql: str, rank: int) -> dict[str, StepSeries]:
        """The rows of a query (name, step, value, low, high), in the order of names and steps."""
        found: dict[str, list[tuple[Any, ...]]] = {}
        for name, *row in self.query(sql, (rank,)).rows:
            found.setdefault(str(name), []).append(tuple(row))
        return {name: _series(rows) for name, rows in found.items()}

    def _refuse_unknown(self, statistic: str, known: Iterable[str]) -> None:
        if statistic not in tuple(known):
            hint = nearest(statistic, known, "there are")
            raise UsageError(f"{quoted(statistic)} is not a statistic{hint}", slug="no-statistic")


def _series(rows: Sequence[tuple[Any, ...]]) -> StepSeries:
    """The series of rows of step, value, low and high."""
    steps = np.array([row[0] for row in rows], np.int64)
    numbers = np.array([row[1:] for row in rows], np.float64).reshape(-1, 3)
    return StepSeries(steps, numbers[:, 0], numbers[:, 1], numbers[:, 2])


def _fill_between(
    cells: NDArray[np.float64],
    rows: NDArray[np.int64],
    first: NDArray[np.int64],
    last: NDArray[np.int64],
    values: NDArray[np.float64],
) -> None:
    """Raise the cells from column ``first`` to ``last`` of each row to its value."""
    first = np.maximum(first, 0)
    counts = last - first + 1
    ends = np.cumsum(counts)
    columns = np.arange(counts.sum()) + np.repeat(first - (ends - counts), counts)
    np.maximum.at(cells, (np.repeat(rows, counts), columns), np.repeat(values, counts))


def _filled(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The values of a query that has no nulls; DuckDB masks NaN."""
    return np.asarray(np.ma.filled(values, np.nan), np.float64)


def _paths(directory: Path, table: Any) -> tuple[Path, ...]:
    return tuple(each.path for each in list_files(directory, table))


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]
