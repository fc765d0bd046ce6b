"""Writes the signals of every step of a guarded training to Parquet files, for trends.

The ring has the last 1,000 steps and outlives a kill at once; this history has all of them, thinned
as other statistics are, and loses the last two seconds.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from sonde.dump.statistic_store.op_table import OpTable
from sonde.dump.statistic_store.row_writer import RowWriter, StoreSettings
from sonde.dump.statistic_store.step_rows import StepRows
from sonde.monitor.signal_rows import PARTS, SignalRows
from sonde.monitor.signals import Signals

CATEGORIES: Final = ("avg", "l2norm", "nan count")
FULL_STEPS: Final = 10_000
_BUDGET_BYTES: Final = 64 << 20
_MILLION: Final = 1_000_000


def history_directory(directory: Path, rank: int) -> Path:
    """The Parquet files of a rank in the directory of a guard."""
    return directory / "statistics" / f"rank_{rank}"


class SignalHistory:
    """The signals of one rank. Used from the training thread.

    A step is handed over when the next begins: until then its signals may change.
    """

    def __init__(self, directory: Path) -> None:
        _move_aside(directory)
        directory.mkdir(parents=True)
        ops = OpTable(directory)
        self._rows = SignalRows(ops, PARTS)
        # A list: the thread that thins reads it while this one appends.
        self._triggered: list[int] = []
        settings = StoreSettings(
            CATEGORIES, _BUDGET_BYTES, full_steps=FULL_STEPS, triggered=self._triggered
        )
        self._writer = RowWriter(directory, ops, settings)
        self._running: Signals | None = None
        self._last_step = -1

    def know(self, names: Sequence[str]) -> None:
        """Add the entries of these parameters, in the order of the file of signals."""
        self._rows.know((name, name.rpartition(".")[0] or name) for name in names)

    def write(self, signals: Signals) -> None:
        """Take the signals of a step, or of the same step again."""
        if self._running is not None and signals.step != self._running.step:
            self._hand_over(self._running)
        self._running = signals

    @property
    def error(self) -> Exception | None:
        """Why nothing more can be written."""
        return self._writer.error

    def close(self) -> None:
        """Write everything."""
        if self._running is not None:
            self._hand_over(self._running)
        self._writer.close()

    def _hand_over(self, signals: Signals) -> None:
        if signals.step <= self._last_step:
            return  # Several optimizers may count the same step.
        self._last_step = signals.step
        if signals.triggers:
            self._triggered.append(signals.step)
        time = np.int64(0 if np.isnan(signals.time) else signals.time * _MILLION)
        labels, rows = self._rows.of(signals)
        self._writer.add(signals.step, 0, StepRows(labels, time.tobytes(), rows, {}))


def _move_aside(directory: Path) -> None:
    """Rename what an earlier run has left there."""
    number = 1
    while os.path.lexists(aside := Path(f"{directory}.previous-{number}")):
        number += 1
    if os.path.lexists(directory):
        os.rename(directory, aside)
