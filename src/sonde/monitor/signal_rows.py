"""The signals of a step as rows of the statistics of all steps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from sonde.core.statistics import AVG, DTYPE, L2NORM, MAX, NAN_COUNT, ROW_COLUMNS
from sonde.dump.statistic_store.engine import files_of
from sonde.dump.statistic_store.files import list_files
from sonde.dump.statistic_store.op_table import OpEntry, OpTable
from sonde.monitor.signals import HISTORICAL, Signals

Part = Literal["gradient", "weight", "update"]
PARTS: Final[tuple[Part, ...]] = ("gradient", "weight", "update")
"""What is known of a parameter: its gradient, its value before the update, and the update."""


_TRIGGERS: Final = "triggers"
_NAMES: Final = (*HISTORICAL, _TRIGGERS)


class SignalRows:
    """Entries of the op table for signals and parameters, and their rows of each step.

    A signal (``loss``, ``grad_norm``, ...) is an entry of kind "signal", with its value as ``avg``.
    A parameter has one for each of ``parts``, with the L2 norm of that part.
    """

    def __init__(self, ops: OpTable, parts: Sequence[Part]) -> None:
        self._ops = ops
        self._columns = [PARTS.index(each) for each in parts]
        self._signals = [ops.add(_entry(name, "signal", "signal", "")) for name in _NAMES]
        self._parameters: list[int] = []

    def know(self, parameters: Iterable[tuple[str, str]]) -> None:
        """Add the entries of these parameters, each with its layer, in the order of the columns of
        ``Signals.gradients``."""
        for name, layer in parameters:
            entries = (
                _entry(f"{name}/gradient", "gradient", "op", layer, "backward"),
                _entry(name, "Parameter", "parameter", layer, "forward"),
                _entry(f"{name}/update", "update", "update", layer),
            )
            self._parameters += [self._ops.add(entries[column]) for column in self._columns]

    def of(self, signals: Signals) -> tuple[list[int], bytes]:
        """The numbers of the entries, and a raw row for each."""
        count = len(self._parameters) // len(self._columns)
        norms = np.full((count, len(PARTS)), np.nan)
        for column, values in enumerate((signals.gradients, signals.weights, signals.updates)):
            known = min(len(values), count)
            norms[:known, column] = values[:known]
        norms[:, 2] *= norms[:, 1]  # Updates are ratios to the weights.
        # A gradient that is not finite has the norm inf; weights that are not have NaN.
        is_bad = np.isinf(norms) | (np.isnan(norms) & (signals.non_finite_weights > 0))
        if not signals.is_skipped:  # The update was made of the gradient.
            is_bad[:, 2] |= np.isnan(norms[:, 2]) & np.isinf(norms[:, 0])
        norms, is_bad = norms[:, self._columns], is_bad[:, self._columns]
        rows = np.zeros((len(self._signals) + norms.size, ROW_COLUMNS))
        rows[:, MAX:DTYPE] = np.nan
        rows[: len(self._signals), AVG] = [getattr(signals, name) for name in _NAMES]
        rows[len(self._signals) :, L2NORM] = norms.reshape(-1)
        rows[HISTORICAL.index("grad_norm"), NAN_COUNT] = (
            signals.non_finite_gradients + signals.non_finite_weights
        )
        rows[0, NAN_COUNT] = signals.has_loss and np.isnan(signals.loss)
        rows[len(self._signals) :, NAN_COUNT] = is_bad.reshape(-1)
        return [*self._signals, *self._parameters], rows.tobytes()


def triggered_steps(connection: Any, directory: Path) -> list[int]:
    """The steps that triggered, of the rows in the directory of a guard."""
    rows, ops = (list_files(directory, table) for table in ("rows", "ops"))
    if not rows or not ops:
        return []
    table = files_of(each.path for each in ops)
    entry = f"select id from {table} where name = ? and kind = 'signal'"
    numbers = connection.execute(entry, [_TRIGGERS]).fetchall()
    if not numbers:
        return []
    source = files_of(each.path for each in rows)
    query = f"select distinct step from {source} where op = ? and avg > 0"
    return [step for (step,) in connection.execute(query, list(numbers[0])).fetchall()]


def _entry(name: str, entry_type: str, kind: str, layer: str, phase: str = "optimizer") -> OpEntry:
    return OpEntry(
        0, name, entry_type, kind, layer, layer, phase, "", "output", 0, "()", "float32", 1, 4
    )
