"""One statistic of all layers and steps in memory, read at the resolution of a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sonde.trends.database import LayerMatrix, StepSeries

Cells = NDArray[np.float32]
ABSENT: Final = np.float32(-np.inf)
"""A cell without a value. Statistics of layers are never negative, and so the greatest of several
cells is absent only if all are; NaN is greater than every number, also than Inf."""
_FACTOR: Final = 4
_FEWEST_COLUMNS: Final = 64
_MOST_SAMPLED: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class GridFrame:
    """Which part of a grid is shown: ``columns`` of ``width`` steps from step ``first`` on, and
    ``rows`` of ``height`` layers from layer ``top`` on; the last row and column may have fewer."""

    first: int
    width: int
    columns: int
    top: int
    height: int
    rows: int


class LayerGrid:
    """One statistic of layers (rows) by steps (columns of ``width`` steps from ``first`` on).

    ``least`` (above zero) and ``greatest`` are the ends of a scale for its values: the 1st and the
    99th percentile, so that a few extreme cells do not make all others look the same; None without
    a value. Besides the grid it has coarser ones, each column the greatest value of four, so that
    every part is read in about the same time. Immutable, and so usable from several threads.
    """

    def __init__(self, layers: Sequence[str], first: int, width: int, values: Cells) -> None:
        self.layers = tuple(layers)
        self.first = first
        self.width = width
        self._levels = [values]
        while self._levels[-1].shape[1] > _FEWEST_COLUMNS:
            self._levels.append(_greatest_columns(self._levels[-1], _FACTOR))
        self.least, self.greatest = _scale_ends(values)

    @classmethod
    def of(cls, matrix: LayerMatrix) -> LayerGrid:
        values = np.where(matrix.is_known, matrix.values, ABSENT).astype(np.float32)
        width = int(matrix.steps[1] - matrix.steps[0]) if len(matrix.steps) > 1 else 1
        return cls(matrix.layers, int(matrix.steps[0]), width, values)

    @property
    def last(self) -> int:
        """The last step."""
        return self.first + self.width * int(self._levels[0].shape[1]) - 1

    @property
    def nbytes(self) -> int:
        return sum(each.nbytes for each in self._levels)

    def with_layers(self, layers: Sequence[str]) -> LayerGrid:
        """The same steps of these layers; those that this grid does not have are absent."""
        values = self._rows_of(layers, self._levels[0])
        return LayerGrid(layers, self.first, self.width, values)

    def greatest_of_steps(self) -> StepSeries:
        """The greatest value of all layers by step, where there is one."""
        values = self._levels[0].max(axis=0, initial=ABSENT).astype(np.float64)
        known = np.flatnonzero(values != ABSENT)
        found = values[known]
        return StepSeries(self.first + self.width * known, found, found, found)

    def extended(self, more: LayerGrid) -> LayerGrid:
        """This grid with the steps of ``more``, which follow it, in columns of the same width."""
        added = more._rows_of(self.layers, more._levels[0])
        values = np.concatenate((self._levels[0], added), axis=1)
        return LayerGrid(self.layers, self.first, self.width, values)

    def frame(
        self, first: int, last: int, top: int, bottom: int, *, rows: int, columns: int
    ) -> GridFrame:
        """The frame for steps ``first`` to ``last`` and layers ``top`` to ``bottom`` (excluded), in
        at most so many rows and columns; what lies outside of the grid is left out. A column has as
        many whole columns of the grid as it needs."""
        first = min(max(first, self.first), self.last)
        last = min(max(last, first), self.last)
        top = min(max(top, 0), max(len(self.layers) - 1, 0))
        bottom = min(max(bottom, top + 1), max(len(self.layers), 1))
        wanted = -(-(last - first + 1) // columns)
        _, unit = self._level(wanted)
        width = -(-wanted // unit) * unit
        _, unit = self._level(width)  # The rounded width may be that of a coarser grid.
        start = first - (first - self.first) % unit
        height = -(-(bottom - top) // rows)
        return GridFrame(
            start, width, (last - start) // width + 1, top, height, -(-(bottom - top) // height)
        )

    def cells(self, frame: GridFrame, layers: Sequence[str] | None = None) -> Cells:
        """The greatest value in each cell of a frame. ``layers``: those that the frame counts, if
        they are not those of this grid."""
        level, unit = self._level(frame.width)
        start = (frame.first - self.first) // unit
        stop = -(-(frame.first + frame.width * frame.columns - self.first) // unit)
        part = level[:, max(start, 0) : max(stop, 0)]
        chosen = slice(frame.top, frame.top + frame.height * frame.rows)
        part = part[chosen] if layers is None else self._rows_of(layers[chosen], part)
        places = (
            self.first
            + unit * (np.arange(part.shape[1]) + max(start, 0))
            + (unit - 1) // 2
            - frame.first
        ) // frame.width
        part = _greatest_rows(part, frame.height)  # First: neighbours in memory, so it is fast.
        found = np.full((part.shape[0], frame.columns), ABSENT)
        inside = np.flatnonzero((places >= 0) & (places < frame.columns))
        if inside.size:
            chosen = slice(inside[0], inside[-1] + 1)  # A mask would copy the part.
            present, starts = np.unique(places[chosen], return_index=True)
            found[:, present] = _greatest_groups(part[:, chosen], starts)
        return found

    def _level(self, width: int) -> tuple[Cells, int]:
        """The coarsest grid whose columns are at most ``width`` steps, and their steps."""
        level, unit = 0, self.width
        while level + 1 < len(self._levels) and unit * _FACTOR <= width:
            level, unit = level + 1, unit * _FACTOR
        return self._levels[level], unit

    def _rows_of(self, layers: Sequence[str], part: Cells) -> Cells:
        places = {name: place for place, name in enumerate(self.layers)}
        found = np.full((len(layers), part.shape[1]), ABSENT)
        for row, name in enumerate(layers):
            if name in places:
                found[row] = part[places[name]]
        return found


def _scale_ends(values: Cells) -> tuple[float | None, float | None]:
    """The percentiles of what is finite; of very many cells those of an even sample."""
    finite = values[np.isfinite(values)]
    finite = finite[:: finite.size // _MOST_SAMPLED + 1]
    positive = finite[finite > 0]
    least = float(np.quantile(positive, 0.01, method="lower")) if positive.size else None
    greatest = float(np.quantile(finite, 0.99, method="higher")) if finite.size else None
    return least, greatest


def _greatest_columns(values: Cells, count: int) -> Cells:
    """The greatest of every ``count`` columns."""
    found = values[:, ::count].copy()
    for shift in range(1, count):
        other = values[:, shift::count]
        found[:, : other.shape[1]] = np.maximum(found[:, : other.shape[1]], other)
    return found


def _greatest_rows(values: Cells, count: int) -> Cells:
    return values if count == 1 else _greatest_columns(values.T, count).T


def _greatest_groups(values: Cells, starts: NDArray[np.int64]) -> Cells:
    """The greatest of each group of columns, which begin at ``starts``."""
    sizes = np.diff(np.append(starts, values.shape[1]))
    if len(starts) > 1 and (sizes[:-1] == sizes[0]).all() and sizes[-1] <= sizes[0]:
        return _greatest_columns(values, int(sizes[0]))
    found: Cells = np.maximum.reduceat(values, starts, axis=1)
    return found
