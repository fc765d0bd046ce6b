"""Parquet files with the statistics of all steps, in the directory of the rank."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sonde.core.errors import DumpError
from sonde.core.files.directories import make_directory
from sonde.core.graph import OpNode
from sonde.core.sink import StepEnd, TensorView
from sonde.dump.sinks.steps import StepFiles
from sonde.dump.statistic_store.op_table import OpTable
from sonde.dump.statistic_store.row_writer import RowWriter, StoreSettings, written_bytes
from sonde.dump.statistic_store.step_rows import StepRows

SignalSource = Callable[[int], tuple[Sequence[int], bytes] | None]
"""Returns the labels and the raw rows of the signals of a step; None without any."""


class StatisticParquet:
    """Hands the rows of each step to a `RowWriter`: a `StatisticForm`.

    The files are made when the first step has ended: a process whose children do the training
    makes none. ``signals`` gives what else is known of a step; its labels are numbers of ``ops``.
    """

    def __init__(self, files: StepFiles, settings: StoreSettings) -> None:
        self.signals: SignalSource | None = None
        self.ops = OpTable(files.rank.statistics)
        self._files = files
        self._settings = settings
        self._directory = files.rank.statistics
        self._writer: RowWriter | None = None

    def label(self, node: OpNode, view: TensorView) -> int:
        """The number of the tensor in the op table."""
        return self.ops.number(node, view)

    def write_step(self, end: StepEnd, rows: StepRows) -> None:
        if self._writer is None:
            try:
                make_directory(self._directory)
            except OSError as error:
                raise self._stopped(error) from None
            self._writer = RowWriter(self._directory, self.ops, self._settings)
        if self.signals is not None and (more := self.signals(end.step)) is not None:
            rows = rows.with_signals(*more)
        self._writer.add(end.step, end.graph.id, rows)
        self._files.keep_step(end.step)
        if self._writer.error is not None:
            raise self._stopped(self._writer.error)

    def close(self) -> None:
        if self._writer is None:
            return
        self._writer.close()
        files, nbytes = written_bytes(self._directory)
        self._files.written.add(nbytes, files)
        if self._writer.error is not None:
            raise self._stopped(self._writer.error)

    def _stopped(self, error: Exception) -> DumpError:
        reason = error.strerror if isinstance(error, OSError) else None
        return DumpError(
            f"{self._directory}: the dump stops here, training goes on: "
            f"{reason or str(error).splitlines()[0]}",
            slug="dump-stopped",
        )
