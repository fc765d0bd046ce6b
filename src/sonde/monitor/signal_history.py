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

from sonde.core.statistics import AVG, L2NORM, NAN_COUNT, ROW_COLUMNS
from sonde.dump.statistic_store.op_table import OpEntry, OpTable
from sonde.dump.statistic_store.row_writer import RowWriter, StoreSettings
from sonde.dump.statistic_store.step_rows import StepRows
from sonde.monitor.signals import HISTORICAL, Signals

CATEGORIES: Final = ("avg", "l2norm", "nan count")
FULL_STEPS: Final = 10_000
_BUDGET_BYTES: Final = 64 << 20
_MILLION: Final = 1_000_000


def history_directory(directory: Path, rank: int) -> Path:
    """The Parquet files of a rank in the directory of a guard."""
    return directory / "statistics" / f"rank_{rank}"


class SignalHistory:
    """The signals of one rank. Used from the training thread.

    Signals of a step (``loss``, ``grad_norm``, ...) are entries of the op table of kind "signal",
    with their value as ``avg``. A parameter has three: its gradient, its weight, its update, each
    with its L2 norm. A step is handed over when the next begins: until then its signals may change.
    """

    def __init__(self, directory: Path) -> None:
        _move_aside(directory)
        directory.mkdir(parents=True)
        self._ops = OpTable(directory)
        self._signals = [self._ops.add(_signal(name)) for name in HISTORICAL]
        self._parameters: list[int] = []
        # A list: the thread that thins reads it while this one appends.
        self._triggered: list[int] = []
        settings = StoreSettings(
            CATEGORIES, _BUDGET_BYTES, full_steps=FULL_STEPS, triggered=self._triggered
        )
        self._writer = RowWriter(directory, self._ops, settings)
        self._running: Signals | None = None
        self._last_step = -1

    def know(self, names: Sequence[str]) -> None:
        """Add the entries of these parameters, in the order of the file of signals."""
        for name in names:
            layer = name.rpartition(".")[0] or name
            for kind, entry_type, phase in (
                ("op", "gradient", "backward"),
                ("parameter", "Parameter", "forward"),
                ("op", "update", "optimizer"),
            ):
                text = f"{name}/{entry_type}" if kind == "op" else name
                entry = _entry(text, entry_type, kind, layer, phase)
                self._parameters.append(self._ops.add(entry))

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
        count = len(self._parameters) // 3
        norms = np.full((count, 3), np.nan)
        for column, values in enumerate((signals.gradients, signals.weights, signals.updates)):
            known = min(len(values), count)
            norms[:known, column] = values[:known]
        norms[:, 2] *= norms[:, 1]  # Updates are ratios to the weights.
        rows = np.zeros((len(self._signals) + norms.size, ROW_COLUMNS))
        rows[:, [AVG, L2NORM]] = np.nan
        rows[: len(self._signals), AVG] = [getattr(signals, name) for name in HISTORICAL]
        rows[len(self._signals) :, L2NORM] = norms.reshape(-1)
        rows[HISTORICAL.index("grad_norm"), NAN_COUNT] = (
            signals.non_finite_gradients + signals.non_finite_weights
        )
        rows[0, NAN_COUNT] = signals.has_loss and np.isnan(signals.loss)
        # A gradient that is not finite has the norm inf; weights that are not have NaN.
        is_bad = np.isinf(norms) | (np.isnan(norms) & (signals.non_finite_weights > 0))
        rows[len(self._signals) :, NAN_COUNT] = is_bad.reshape(-1)
        time = np.int64(0 if np.isnan(signals.time) else signals.time * _MILLION)
        labels = [*self._signals, *self._parameters]
        self._writer.add(signals.step, 0, StepRows(labels, time.tobytes(), rows.tobytes(), {}))


def _signal(name: str) -> OpEntry:
    return _entry(name, "signal", "signal", "", "optimizer")


def _entry(name: str, entry_type: str, kind: str, layer: str, phase: str) -> OpEntry:
    return OpEntry(
        0, name, entry_type, kind, layer, layer, phase, "", "output", 0, "()", "float32", 1, 4
    )


def _move_aside(directory: Path) -> None:
    """Rename what an earlier run has left there."""
    number = 1
    while os.path.lexists(aside := Path(f"{directory}.previous-{number}")):
        number += 1
    if os.path.lexists(directory):
        os.rename(directory, aside)
