"""Statistics of many steps: sizes, and times to write and to ask, beside other formats.

    python benchmarks/trends.py --rows 10000000

Rows are made up: norms that wander from step to step, NaN in the last tenth of one op. They are
handed to the writer as the native code of a training hands them over. The same rows go to
statistic.csv, to TensorBoard's event files and to SQLite (by default a tenth of them: they are
slow; sizes and times are given per row). One thread asks; beside the time by the clock stands that
of the processor, which other programs disturb less.
"""

from __future__ import annotations

import argparse
import json
import secrets
import shutil
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from sonde import kernels
from sonde.capture.options import STORE_CATEGORIES
from sonde.core.graph import OpNode
from sonde.core.statistics import CATEGORIES, ROW_COLUMNS, raw_column
from sonde.dump import layout
from sonde.dump.statistic_store import engine
from sonde.dump.statistic_store.compaction import thin_old
from sonde.dump.statistic_store.op_table import OpTable
from sonde.dump.statistic_store.row_writer import RowWriter, StoreSettings, written_bytes
from sonde.dump.statistic_store.step_rows import StepRows
from sonde.kernels.codes import dtype_code
from sonde.trends.database import TrendDatabase

_FIELDS = ("max", "min", "avg", "l2norm")


class MadeTensor:
    """What the op table reads of a tensor."""

    io, slot, shape, dtype, nbytes = "output", 0, (64, 64), "float32", 16384


class MadeRun:
    """Raw rows of each step, the same for every format."""

    def __init__(self, ops: int, steps: int) -> None:
        self.ops, self.steps = ops, steps
        self._chance = np.random.default_rng(7)
        self._scale = np.exp(self._chance.normal(size=ops))
        self.names = [f"Default/net/{n // 10}-Block/mm-op{n % 10}" for n in range(ops)]
        self._block = np.zeros((ops, ROW_COLUMNS))
        self._block[:, raw_column("count")] = 4096
        self._block[:, 15] = dtype_code("float32")

    def rows(self, step: int) -> np.ndarray[Any, np.dtype[np.float64]]:
        """The raw rows of a step; noise that float32 values have."""
        noise = self._chance.normal(size=(3, self.ops))
        self._scale *= np.exp(0.01 * noise[0])
        block = self._block.copy()
        norm = 64 * self._scale * (1 + 0.01 * noise[1])
        block[:, raw_column("l2norm")] = norm
        block[:, raw_column("max")] = np.float32(self._scale * (4 + 0.3 * noise[2]))
        block[:, raw_column("min")] = np.float32(self._scale * (-4 + 0.3 * noise[0]))
        block[:, raw_column("avg")] = 0.01 * self._scale * noise[1]
        block[:, raw_column("zero count")] = self._chance.poisson(2.0, self.ops) * (
            np.arange(self.ops) % 5 == 0
        )
        if step >= self.steps - self.steps // 10:
            block[self.ops // 2, raw_column("nan count")] = 17
        return block


def write_parquet(run: MadeRun, directory: Path, hashes: tuple[str, ...] = ()) -> dict[str, float]:
    rank = directory / "rank_0" / layout.STATISTICS
    rank.mkdir(parents=True)
    ops = OpTable(rank)
    for name in run.names:
        node = OpNode(name, "mm", name.rpartition("/")[0], "forward")
        ops.number(node, MadeTensor())  # type: ignore[arg-type]
    writer = RowWriter(rank, ops, StoreSettings((*STORE_CATEGORIES, *hashes), 512 << 20))
    labels = list(range(run.ops))
    training, began, making = [], time.perf_counter(), 0.0
    used = time.process_time()
    for step in range(run.steps):
        before = time.thread_time()
        data = run.rows(step).tobytes()
        stamps = np.full(run.ops, time.time_ns() // 1000, np.int64).tobytes()
        digests = {name: [secrets.token_hex(16).encode() for _ in labels] for name in hashes}
        making += time.thread_time() - before
        before = time.perf_counter()
        writer.add(step, 0, StepRows(labels, stamps, data, digests))
        training.append(time.perf_counter() - before)
    writer.close()
    seconds = time.perf_counter() - began
    if writer.error is not None:
        raise writer.error
    rows = run.ops * run.steps
    return {
        "bytes_per_row": written_bytes(rank)[1] / rows,
        "training_thread_us_per_row": 1e6 * statistics.median(training) / run.ops,
        "training_thread_worst_us_per_row": 1e6 * max(training) / run.ops,
        "all_threads_us_per_row": 1e6 * seconds / rows,
        "all_threads_cpu_us_per_row": 1e6 * (time.process_time() - used - making) / rows,
    }


def thin_parquet(run: MadeRun, directory: Path) -> dict[str, float]:
    """Thin all steps."""
    rank = directory / "rank_0" / layout.STATISTICS
    began = time.perf_counter()
    thin_old(engine.connect(), rank, 0)
    seconds = time.perf_counter() - began
    return _per_row(run, written_bytes(rank)[1], seconds)


def write_csv(run: MadeRun, directory: Path) -> dict[str, float]:
    directory.mkdir()
    parts = [
        layout.statistic_row_parts("mm", name, "output", 0, 16384, "Float32", (64, 64))
        for name in run.names
    ]
    heads = [head.encode() for head, _ in parts]
    tails = [f"{tail},".encode() for _, tail in parts]
    columns = [CATEGORIES[name].column for name in STORE_CATEGORIES]
    began, size = time.perf_counter(), 0
    for step in range(run.steps):
        stamps = np.full(run.ops, time.time_ns() // 1000, np.int64)
        text = kernels.format_rows(heads, tails, stamps, run.rows(step), columns)
        (directory / f"{step}.csv").write_bytes(text)
        size += len(text)
    return _per_row(run, size, time.perf_counter() - began)


def write_events(run: MadeRun, directory: Path) -> dict[str, float]:
    from torch.utils.tensorboard import SummaryWriter

    began = time.perf_counter()
    with SummaryWriter(str(directory)) as writer:
        for step in range(run.steps):
            rows = run.rows(step)
            for number, name in enumerate(run.names):
                for field in _FIELDS:
                    writer.add_scalar(f"{name}/{field}", rows[number, raw_column(field)], step)
    size = sum(each.stat().st_size for each in directory.iterdir())
    return _per_row(run, size, time.perf_counter() - began)


def write_sqlite(run: MadeRun, path: Path) -> dict[str, float]:
    columns = [raw_column(name) for name in STORE_CATEGORIES]
    began = time.perf_counter()
    database = sqlite3.connect(path)
    names = ", ".join(name.replace(" ", "_") + " real" for name in STORE_CATEGORIES)
    database.execute(f"create table rows (step integer, op integer, {names})")
    marks = ", ".join("?" * (2 + len(columns)))
    for step in range(run.steps):
        rows = run.rows(step)[:, columns].tolist()
        values = ((step, number, *row) for number, row in enumerate(rows))
        database.executemany(f"insert into rows values ({marks})", values)
    database.execute("create index by_op on rows (op, step)")
    database.commit()
    found = _per_row(run, path.stat().st_size, time.perf_counter() - began)
    ask = database.execute
    middle = run.ops // 2
    for title, sql in {
        "first_nonfinite": "select min(step) from rows where nan_count > 0",
        "series": f"select step, l2norm from rows where op = {middle} order by step",
        "one_step": f"select * from rows where step = {run.steps // 2}",
    }.items():
        found |= _times(title, lambda sql=sql: ask(sql).fetchall())  # type: ignore[misc]
    return found


def ask_parquet(run: MadeRun, directory: Path) -> dict[str, float]:
    began = time.perf_counter()
    database = TrendDatabase(directory)
    opened = 1e3 * (time.perf_counter() - began)
    name, step = run.names[run.ops // 2], run.steps // 2
    asked = {
        "first_nonfinite": "from first_nonfinite",
        "series": f"from series('{name}', 'l2norm')",
        "one_step": f"from tensors where step = {step}",
        "layers": f"from layers({step})",
        "growth": f"from growth({max(run.steps // 20, 1)}) limit 10",
    }
    found = {"open_ms": opened}
    for title, sql in asked.items():
        found |= _times(title, lambda sql=sql: database.query(sql))  # type: ignore[misc]
    found |= _times("series_points", lambda: database.series(name, "l2norm"))
    found |= _times("layer_matrix", lambda: database.layer_matrix("activation_rms"))
    return found


def _times(title: str, ask: Callable[[], Any]) -> dict[str, float]:
    """The medians of five questions after a first one: by the clock, and of the processor."""
    ask()
    clock, processor = [], []
    for _ in range(5):
        began, used = time.perf_counter(), time.process_time()
        ask()
        clock.append(time.perf_counter() - began)
        processor.append(time.process_time() - used)
    return {
        f"{title}_ms": 1e3 * statistics.median(clock),
        f"{title}_cpu_ms": 1e3 * statistics.median(processor),
    }


def _per_row(run: MadeRun, size: int, seconds: float) -> dict[str, float]:
    rows = run.ops * run.steps
    return {"bytes_per_row": size / rows, "us_per_row": 1e6 * seconds / rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--ops", type=int, default=2000)
    parser.add_argument("--other-rows", type=int, help="rows of the other formats")
    parser.add_argument("--only", choices=["parquet"], help="leave the other formats out")
    options = parser.parse_args()
    steps = max(options.rows // options.ops, 20)
    others = max((options.other_rows or options.rows // 10) // options.ops, 20)
    place = Path(tempfile.mkdtemp(prefix="sonde-trends-"))
    try:
        run = MadeRun(options.ops, steps)
        found: dict[str, Any] = {
            "rows": steps * options.ops,
            "parquet": write_parquet(run, place / "dump") | ask_parquet(run, place / "dump"),
            "thinned": thin_parquet(run, place / "dump"),
        }
        few = MadeRun(options.ops, 100)
        found["parquet with a hash"] = write_parquet(few, place / "hashed", ("xxh3",))
        if options.only is None:
            found["other_rows"] = others * options.ops
            found["statistic.csv"] = write_csv(MadeRun(options.ops, others), place / "csv")
            found["sqlite"] = write_sqlite(MadeRun(options.ops, others), place / "rows.db")
            few = MadeRun(options.ops, max(others // 20, 2))
            found["tensorboard"] = write_events(few, place / "events")
    finally:
        shutil.rmtree(place)
    print(json.dumps(found, indent=1, default=float))


if __name__ == "__main__":
    main()
