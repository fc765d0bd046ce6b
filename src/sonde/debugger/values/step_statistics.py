"""Collects the statistics of the outputs of a step, for the server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from sonde.core.sink import TensorView
from sonde.core.statistics import ROW_COLUMNS
from sonde.wire.rank import OpStatistics

_MOST_IN_MESSAGE: Final = 20_000


class StepStatistics:
    """The statistics of the running step that were not sent yet. Used from the training thread.

    A tensor with the values of one that was measured in this step is not read again.
    """

    def __init__(self) -> None:
        self._step = -1
        self._names: list[tuple[str, int]] = []
        self._rows: list[np.ndarray[tuple[int], np.dtype[np.float64]]] = []
        self._known: dict[object, np.ndarray[tuple[int], np.dtype[np.float64]]] = {}

    def begin_step(self, step: int) -> None:
        self._step = step
        self._names.clear()
        self._rows.clear()
        self._known.clear()

    def add(self, op: str, view: TensorView) -> None:
        """Measure an output, unless it has no statistics."""
        if not view.is_filled or not view.numel:
            return
        token = view.values_token
        row = None if token is None else self._known.get((token, view.numel))
        if row is None:
            row = np.empty(ROW_COLUMNS, np.float64)
            if not view.summarize_into(row.ctypes.data):
                return
            if token is not None:
                self._known[token, view.numel] = row
        self._names.append((op, view.slot))
        self._rows.append(row)

    def take(self) -> Iterator[OpStatistics]:
        """The messages with what was added since the last call."""
        names, rows = self._names, self._rows
        self._names, self._rows = [], []
        for start in range(0, len(names), _MOST_IN_MESSAGE):
            part = names[start : start + _MOST_IN_MESSAGE]
            data = np.stack(rows[start : start + _MOST_IN_MESSAGE]).astype("<f8", copy=False)
            ops, slots = zip(*part, strict=True)
            yield OpStatistics(self._step, ops, slots, data.tobytes())
