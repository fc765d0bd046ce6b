"""Keeps the signals of the last steps in a mapped file, which outlives the process.

The operating system writes the pages of the file when the process ends, however it ends: also by
``kill -9``. Only a failure of the machine loses them.
"""

from __future__ import annotations

import mmap
import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from sonde.core.files.atomic_file import replace_file, without_links
from sonde.monitor.ring_format import ROWS, RingLayout, nan_row, without_duplicates
from sonde.monitor.signals import COLUMNS, Signals

_Row = tuple[int, npt.NDArray[np.float64], npt.NDArray[np.float32]]


def ring_path(directory: Path, rank: int) -> Path:
    """The file of a rank's signals."""
    return directory / f"signals.rank_{rank}.ring"


class SignalRing:
    """The last 1,000 steps of one rank, as the file ``path``. Used from one thread.

    ``write`` of a step that was written last replaces its row: the ratio of the update is known
    later than the rest. ``know`` adds parameters. The file has its full size from the beginning,
    since writing to a mapped file on a full disk would end the process: OSError here, not later.
    """

    def __init__(self, path: Path, rank: int, *, rows: int = ROWS) -> None:
        self._path = path
        self._layout = RingLayout(COLUMNS, (), rank, rows)
        self._sequence = 0
        self._last_step: int | None = None
        self._map, self._start = self._create(self._layout, {})
        self._row = nan_row(self._layout)

    @property
    def path(self) -> Path:
        return self._path

    @property
    def parameters(self) -> tuple[str, ...]:
        return self._layout.parameters

    def know(self, names: Sequence[str]) -> int:
        """Add columns for these parameters, and return the number of the first; those beyond the
        most that a file may have get none."""
        known = len(self._layout.parameters)
        before = self._rows()
        parameters = without_duplicates([*self._layout.parameters, *names])
        layout = RingLayout(COLUMNS, parameters, self._layout.rank, self._layout.rows)
        row = nan_row(layout)
        old = self._map
        # A signal handler of the program may raise in any call: all or nothing is exchanged.
        created, start = self._create(layout, before)
        self._map, self._start, self._layout, self._row = created, start, layout, row
        old.close()
        return known

    def write(self, signals: Signals) -> None:
        """Write a row; the same step's row if it was written last."""
        if signals.step != self._last_step:
            self._sequence += 1
            self._last_step = signals.step
        row = self._row
        row["sequence"] = self._sequence
        row["batch_hash"] = signals.batch_hash
        row["numbers"][0] = signals.numbers()
        row["gradients"][0] = np.nan
        count = min(len(signals.gradients), len(self._layout.parameters))
        row["gradients"][0, :count] = signals.gradients[:count]
        self._put(row, (self._sequence - 1) % self._layout.rows)

    def close(self) -> None:
        """Unmap the file."""
        self._map.close()

    def _put(self, row: np.ndarray[tuple[int], np.dtype[np.void]], slot: int) -> None:
        size = row.dtype.itemsize
        row["crc"] = zlib.crc32(row.tobytes()[:-4])
        start = self._start + slot * size
        self._map[start : start + size] = row.tobytes()

    def _rows(self) -> dict[int, _Row]:
        """The rows that are there, by sequence number."""
        rows = np.frombuffer(
            self._map[self._start :], self._layout.row_type, count=self._layout.rows
        )
        return {
            int(row["sequence"]): (int(row["batch_hash"]), row["numbers"], row["gradients"])
            for row in rows
            if row["sequence"]
        }

    def _create(self, layout: RingLayout, rows: dict[int, _Row]) -> tuple[mmap.mmap, int]:
        """Make the file with these rows, replace the one before, and map it; returns where its
        rows begin, too."""
        header = layout.header()
        size = len(header) + layout.rows * layout.row_type.itemsize

        def fill(file: BinaryIO) -> None:
            os.posix_fallocate(file.fileno(), 0, size)
            file.write(header)
            for sequence, (batch_hash, numbers, gradients) in sorted(rows.items()):
                row = nan_row(layout)
                row["sequence"], row["batch_hash"] = sequence, batch_hash
                row["numbers"][0] = numbers
                row["gradients"][0, : len(gradients)] = gradients
                row["crc"] = zlib.crc32(row.tobytes()[:-4])
                slot = (sequence - 1) % layout.rows
                file.seek(len(header) + slot * layout.row_type.itemsize)
                file.write(row.tobytes())

        replace_file(self._path, fill)
        descriptor = without_links(str(self._path), os.O_RDWR)
        try:
            return mmap.mmap(descriptor, size), len(header)
        finally:
            os.close(descriptor)
