"""Downsamples a plane of numbers to a heat map: a cell covers several elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sonde.core.statistics import CellBy

Band = Callable[[int, int], NDArray[np.float64]]
"""Rows ``first`` to ``last`` of a plane."""
Picture = tuple[int, int, tuple[float | None, ...], tuple[int, ...], float | None, float | None]
"""Rows, columns, cells, marks, lowest and highest cell."""

NAN: Final = 1
POSITIVE_INF: Final = 2
NEGATIVE_INF: Final = 4
_HUGE: Final = 1e290
_SHRINK: Final = 2.0**-40


def heat_of(
    shape: tuple[int, ...], band: Band, most_rows: int, most_columns: int, by: CellBy = "mean"
) -> Picture:
    """The picture of a plane of ``shape``; a cell without finite elements is None.

    Cells cover nearly equal numbers of rows and columns; none is empty. A cell is the mean of its
    finite elements, in float64, which never overflows, or the one of largest magnitude; of two that
    differ in sign the positive one. Only the rows of one row of cells are in memory.
    """
    height, width = shape
    rows, columns = min(height, most_rows), min(width, most_columns)
    if not rows or not columns:
        return 0, 0, (), (), None, None
    row_edges = [height * row // rows for row in range(rows + 1)]
    column_starts = np.array([width * column // columns for column in range(columns)])
    cells = np.empty((rows, columns))
    marks = np.zeros((rows, columns), np.uint8)
    for row in range(rows):
        elements = band(row_edges[row], row_edges[row + 1])
        cells[row], marks[row] = _row_of_cells(elements, column_starts, by)
    finite = np.isfinite(cells)
    shown: list[float | None] = list(cells.reshape(-1).tolist())
    for place in np.flatnonzero(~finite).tolist():
        shown[place] = None
    low = float(cells[finite].min()) if finite.any() else None
    high = float(cells[finite].max()) if finite.any() else None
    return rows, columns, tuple(shown), tuple(marks.reshape(-1).tolist()), low, high


def _row_of_cells(
    elements: NDArray[np.float64], starts: NDArray[np.int64], by: CellBy
) -> tuple[NDArray[np.float64], NDArray[np.uint8]]:
    finite = np.isfinite(elements)
    marks = np.zeros(len(starts), np.uint8)
    if finite.all():
        counts = np.diff(np.append(starts, elements.shape[1])) * elements.shape[0]
    else:
        counts = np.add.reduceat(finite.sum(axis=0), starts)
        for bit, found in (
            (NAN, np.isnan(elements)),
            (POSITIVE_INF, elements == np.inf),
            (NEGATIVE_INF, elements == -np.inf),
        ):
            marks |= np.logical_or.reduceat(found.any(axis=0), starts) * np.uint8(bit)
        elements = np.where(finite, elements, 0.0)
    if by == "largest":
        high = np.maximum.reduceat(elements.max(axis=0), starts)
        low = np.minimum.reduceat(elements.min(axis=0), starts)
        return np.where(counts > 0, np.where(high >= -low, high, low), np.nan), marks
    shrink = _SHRINK if max(elements.max(), -elements.min()) > _HUGE else 1.0
    if shrink != 1.0:
        elements = elements * shrink
    sums = np.add.reduceat(elements.sum(axis=0), starts)
    means = np.full(len(starts), np.nan)
    np.divide(sums, counts, out=means, where=counts > 0)
    return means / shrink, marks
