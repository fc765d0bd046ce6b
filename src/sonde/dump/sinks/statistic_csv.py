"""``statistic.csv``: a file in the directory of each step.

The complete file appears after the end of its step and before the next step ends: a crash loses at
most the running step and the one being written.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sonde import kernels
from sonde.core.dtypes import dtype_named
from sonde.core.graph import OpNode
from sonde.core.sink import StepEnd, TensorView
from sonde.core.statistics import HASHES, ROW_COLUMNS, raw_column
from sonde.dump import layout
from sonde.dump.sinks.steps import StepFiles, raise_failure
from sonde.dump.statistic_store.step_rows import StepRows
from sonde.dump.writing.writer import Writer


class StatisticCsv:
    """Writes ``statistic.csv`` of each step: a `StatisticForm`."""

    def __init__(self, files: StepFiles, writer: Writer, categories: Sequence[str]) -> None:
        self._files = files
        self._writer = writer
        self._categories = tuple(categories)
        self._columns = tuple(raw_column(name) for name in categories)
        self._last_job: int | None = None

    def label(self, node: OpNode, view: TensorView) -> tuple[bytes, bytes]:
        """The text of the tensor's line before and after the timestamp."""
        head, tail = layout.statistic_row_parts(
            node.type,
            node.name,
            view.io,
            view.slot,
            view.nbytes,
            dtype_named(view.dtype).label,
            view.shape,
        )
        return head.encode(), f"{tail},".encode()

    def write_step(self, end: StepEnd, rows: StepRows) -> None:
        header = layout.statistic_header(self._categories)
        path = self._files.open(end.step) / layout.STATISTIC
        text = header.encode() + b"\n" + self._text(rows)
        if self._last_job is not None:
            self._writer.wait(self._last_job)
        self._last_job = self._writer.write_text(str(path), text)
        self._files.running.add(len(text))
        raise_failure(self._writer)

    def close(self) -> None:
        """Nothing to do: the writer is closed with the dump."""

    def _text(self, rows: StepRows) -> bytes:
        heads, tails = zip(*rows.labels, strict=True)
        return kernels.format_rows(
            heads,
            tails,
            np.frombuffer(rows.timestamps, np.int64),
            np.frombuffer(rows.rows, np.float64).reshape(-1, ROW_COLUMNS),
            self._columns,
            [rows.digests.get(name, ()) for name in HASHES],
        )
