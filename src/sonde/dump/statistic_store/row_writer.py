"""Writes rows to Parquet files on a thread of its own, while the training goes on.

The training thread hands over the bytes of a step's rows; everything else is done here. A piece has
the steps of about two seconds; a thousand steps of pieces become one file sorted by op, on a second
thread. A kill loses the steps that are not in a piece yet.
"""

from __future__ import annotations

import atexit
import logging
import os
import queue
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sonde.core.interruption import start_thread
from sonde.core.statistics import HASHES, ROW_COLUMNS
from sonde.core.threads.thread_event import ThreadEvent
from sonde.dump.statistic_store import engine
from sonde.dump.statistic_store.columns import (
    NO_HASH,
    NON_FINITE,
    SIGNAL_POSITION,
    columns_of_rows,
    hash_column,
)
from sonde.dump.statistic_store.compaction import merge, thin_old
from sonde.dump.statistic_store.files import StoreFile, list_files, store_file, write_file
from sonde.dump.statistic_store.op_table import OpTable
from sonde.dump.statistic_store.step_rows import StepRows

_log = logging.getLogger("sonde.dump")

PIECE_SECONDS: Final = 2.0
PIECE_ROWS: Final = 250_000
MOST_PIECES: Final = 32
BLOCK_STEPS: Final = 1000
BLOCK_ROWS: Final = 4_000_000


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """``categories`` of the configuration; ``budget_bytes`` that may wait in memory; the last
    ``full_steps`` steps are kept in full and older ones thinned (0: all are kept), but for those
    around the steps in ``triggered``, to which the owner may add while rows are written."""

    categories: tuple[str, ...]
    budget_bytes: int
    full_steps: int = 0
    triggered: Collection[int] = ()
    block_steps: int = BLOCK_STEPS
    piece_seconds: float = PIECE_SECONDS


@dataclass(frozen=True, slots=True)
class _Step:
    step: int
    graph: int
    rows: StepRows
    added_bytes: int


_UNCLOSED: set[RowWriter] = set()
"""Those whose thread has not been told to end."""


@atexit.register
def _end_threads() -> None:
    """End the threads of writers that were never handed to their user, because a signal handler of
    the program raised at that moment: DuckDB prints lines about leaks if one is left."""
    for each in list(_UNCLOSED):
        if each.has_thread():
            each.close()


os.register_at_fork(after_in_child=_UNCLOSED.clear)


class RowWriter:
    """The Parquet files of one rank, in ``directory``, which is created.

    ``add``, ``error`` and ``close`` are called by the training thread. ``add`` waits while more
    than the budget is pending; nothing is dropped. After a failure it does nothing: ``error`` has
    the reason.
    """

    def __init__(self, directory: Path, ops: OpTable, settings: StoreSettings) -> None:
        self._directory = directory
        self._ops = ops
        self._settings = settings
        self._connection: Any = None  # made by the thread, because DuckDB is slow to import
        self._pending: queue.SimpleQueue[_Step | None] = queue.SimpleQueue()
        # Each is changed by one thread only. A step carries the sum up to itself, so that an
        # interruption between its hand-over and the sum here leaves no false difference.
        self._added_bytes = self._written_bytes = 0
        self._room = ThreadEvent()
        # Thread.is_alive takes a thread for an ended one once a signal handler interrupted it.
        self._ended = ThreadEvent()
        self._compactor = _Compactor(directory, settings)
        self._block: list[StoreFile] = []
        self._block_steps = self._block_rows = 0
        self.error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="sonde-statistics", daemon=True)
        _UNCLOSED.add(self)
        start_thread(self._thread)

    def add(self, step: int, graph: int, rows: StepRows) -> None:
        """Hand over the rows of a step, which is later than those before it."""
        added_bytes = self._added_bytes + len(rows.rows)
        while self._is_full(added_bytes) and not self._ended.is_set():
            self._room.clear()
            if self._is_full(added_bytes):
                self._room.wait(1.0)
        if self.error is None:
            self._pending.put(_Step(step, graph, rows, added_bytes))
            self._added_bytes = added_bytes

    def _is_full(self, added_bytes: int) -> bool:
        """Whether so many bytes in all are too many as long as those before them wait."""
        written = self._written_bytes
        return self._added_bytes > written and added_bytes - written > self._settings.budget_bytes

    def has_thread(self) -> bool:
        """Whether its thread was started and has not ended."""
        return self._thread.is_alive()

    def close(self) -> None:
        """Write what is pending, sort it by op, and end the threads."""
        _UNCLOSED.discard(self)
        self._pending.put(None)
        self._ended.wait()
        self._thread.join()
        self._compactor.close()

    def _run(self) -> None:
        try:
            self._connection = engine.connect()
            while self._write_next():
                pass
            self._connection.close()
            self._connection = None  # DuckDB prints lines about leaks if one is left at exit.
            if self._block:
                self._compactor.add(self._block)
        except Exception as error:  # Reported by the training thread at the end of the next step.
            self.error = error
        finally:
            self._ended.set()
            self._room.set()

    def _write_next(self) -> bool:
        """Write the steps of the next two seconds as a piece; False at the end."""
        first = self._pending.get()
        if first is None:
            return False
        steps, goes_on = [first], True
        rows = len(first.rows.labels)
        until = time.monotonic() + self._settings.piece_seconds
        most = self._settings.block_steps - self._block_steps
        while rows < PIECE_ROWS and len(steps) < most:
            try:
                found = self._pending.get(timeout=max(until - time.monotonic(), 0))
            except queue.Empty:
                break
            if found is None:
                goes_on = False
                break
            steps.append(found)
            rows += len(found.rows.labels)
        self._write_piece(steps, rows)
        return goes_on

    def _write_piece(self, steps: Sequence[_Step], rows: int) -> None:
        self._ops.write_new(self._connection)
        file = store_file(self._directory, "rows", steps[0].step, steps[-1].step, "piece")
        columns = _columns(steps, self._settings.categories)
        self._connection.register("new_rows", columns)
        try:
            write_file(self._connection, _with_nan(columns), file)
        finally:
            self._connection.unregister("new_rows")
        self._written_bytes = steps[-1].added_bytes
        self._room.set()
        self._block.append(file)
        self._block_steps += len(steps)
        self._block_rows += rows
        if self._block_steps >= self._settings.block_steps or self._block_rows >= BLOCK_ROWS:
            self._compactor.add(self._block)
            self._block, self._block_steps, self._block_rows = [], 0, 0
        elif sum(each.form == "piece" for each in self._block) >= MOST_PIECES:
            whole = [each for each in self._block if each.form != "piece"]
            pieces = [each for each in self._block if each.form == "piece"]
            self._block = [*whole, merge(self._connection, pieces, "merged")]


class _Compactor:
    """Sorts blocks of steps by op, and thins old ones, on a thread of its own."""

    def __init__(self, directory: Path, settings: StoreSettings) -> None:
        self._directory = directory
        self._settings = settings
        self._blocks: queue.SimpleQueue[list[StoreFile] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def add(self, block: Sequence[StoreFile]) -> None:
        self._blocks.put(list(block))
        if self._thread is None:
            name = "sonde-statistics-compaction"
            self._thread = threading.Thread(target=self._run, name=name, daemon=True)
            start_thread(self._thread)

    def close(self) -> None:
        if self._thread is not None:
            self._blocks.put(None)
            self._thread.join()

    def _run(self) -> None:
        connection = engine.connect()
        try:
            while (block := self._blocks.get()) is not None:
                merge(connection, block, "op_order")
                if self._settings.full_steps:
                    thin_old(
                        connection,
                        self._directory,
                        self._settings.full_steps,
                        triggered=sorted(self._settings.triggered),
                    )
        except Exception as error:  # The pieces stay, and are read as they are.
            _log.warning("the files in %s are not sorted by op: %s", self._directory, error)
        finally:
            connection.close()


def _with_nan(columns: Mapping[str, Any]) -> str:
    """A query for the registered rows. DuckDB takes NaN in an array for null: it is NaN again where
    the row has values that are not finite; elsewhere it is a number that is not known, such as the
    maximum of an empty tensor."""
    floats = [name for name, values in columns.items() if values.dtype == np.float64]
    restored = ", ".join(
        f"case when {NON_FINITE} > 0 then coalesce({name}, 'nan'::double) else {name} end as {name}"
        for name in floats
    )
    return f"select * {f'replace ({restored}) ' if restored else ''}from new_rows"


def _columns(steps: Sequence[_Step], categories: Sequence[str]) -> dict[str, Any]:
    """The columns of a piece."""
    sizes = [len(each.rows.labels) for each in steps]
    rows = np.frombuffer(b"".join(each.rows.rows for each in steps), np.float64)
    ops = [np.array(each.rows.labels, np.int32) for each in steps]
    times = [int.from_bytes(each.rows.timestamps[:8], "little", signed=True) for each in steps]
    found: dict[str, Any] = {
        "step": np.repeat(np.array([each.step for each in steps], np.int32), sizes),
        "graph": np.repeat(np.array([each.graph for each in steps], np.int32), sizes),
        "time": np.repeat(np.array(times, np.int64), sizes),
        "op": np.concatenate(ops),
        "position": np.concatenate([_positions(each.rows) for each in steps]),
        **columns_of_rows(rows.reshape(-1, ROW_COLUMNS), categories),
    }
    for name in HASHES:
        if name in categories:
            digests = [each for step in steps for each in _digests(step.rows, name)]
            found[name] = hash_column(digests)
    return found


def _positions(rows: StepRows) -> NDArray[np.int32]:
    """The places of the rows in their step; signals follow all tensors."""
    found = np.arange(len(rows.labels), dtype=np.int32)
    found[len(found) - rows.signals :] += SIGNAL_POSITION
    return found


def _digests(rows: StepRows, name: str) -> Sequence[bytes]:
    return [*rows.digests[name], *[NO_HASH] * rows.signals]


def written_bytes(directory: Path) -> tuple[int, int]:
    """How many files there are of rows and ops, and their size."""
    files = [*list_files(directory, "rows"), *list_files(directory, "ops")]
    sizes = [each.path.stat().st_size for each in files if each.path.exists()]
    return len(sizes), sum(sizes)
