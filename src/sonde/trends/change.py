"""Orders layers by how much a statistic of theirs has changed over a run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, isfinite, log

import numpy as np
from numpy.typing import NDArray

from sonde.trends.database import LayerMatrix, TrendDatabase


@dataclass(frozen=True, slots=True)
class LayerTrend:
    """A statistic of one layer over the steps; ``is_known`` False where it has no value.

    ``first`` and ``last`` are medians of the first and last tenth of what is finite, ``factor``
    their ratio: infinite where a zero became a number, NaN where nothing is finite. ``turned`` is
    the first step at which the value is not finite, if there is one after a finite one.
    """

    layer: str
    values: NDArray[np.float64]
    is_known: NDArray[np.bool_]
    first: float
    last: float
    factor: float
    turned: int | None

    @property
    def change(self) -> float:
        """How far the factor is from 1, in either direction; what turns non-finite comes first."""
        if self.turned is not None:
            return inf
        if not isfinite(self.factor):
            return 0.0 if self.factor != self.factor else 1e300
        return abs(log(self.factor)) if self.factor > 0 else 1e300


def run_trends(
    database: TrendDatabase, statistic: str, *, columns: int, rank: int
) -> tuple[LayerMatrix, list[LayerTrend]]:
    """The trend of each layer of a run in at most so many columns; ``turned`` is the very step,
    also where a column has several."""
    matrix = database.layer_matrix(statistic, columns=columns, rank=rank)
    width = int(matrix.steps[1] - matrix.steps[0]) if len(matrix.steps) > 1 else 1
    found = layer_trends(matrix)
    if width == 1:
        return matrix, found
    turned: dict[tuple[int | None, str], int] = {}
    for first in {each.turned for each in found if each.turned is not None}:
        part = database.layer_matrix(
            statistic, first=first, last=first + width - 1, columns=width, rank=rank
        )
        for each in layer_trends(part):
            if each.turned is not None:
                turned[first, each.layer] = each.turned
    exact = (turned.get((each.turned, each.layer), each.turned) for each in found)
    return matrix, [replace(each, turned=step) for each, step in zip(found, exact, strict=True)]


def layer_trends(matrix: LayerMatrix) -> list[LayerTrend]:
    """The trend of each layer, the greatest change first."""
    found = [
        _trend(layer, matrix.steps, values, is_known)
        for layer, values, is_known in zip(
            matrix.layers, matrix.values, matrix.is_known, strict=True
        )
    ]
    return sorted(found, key=lambda each: -each.change)


def _trend(
    layer: str,
    steps: NDArray[np.int64],
    values: NDArray[np.float64],
    is_known: NDArray[np.bool_],
) -> LayerTrend:
    finite = values[is_known & np.isfinite(values)]
    wrong = np.flatnonzero(is_known & ~np.isfinite(values))
    turned = int(steps[wrong[0]]) if wrong.size else None
    if not finite.size:
        return LayerTrend(layer, values, is_known, np.nan, np.nan, np.nan, turned)
    part = max(len(finite) // 10, 1)
    first, last = float(np.median(finite[:part])), float(np.median(finite[-part:]))
    factor = last / first if first else (1.0 if not last else inf)
    return LayerTrend(layer, values, is_known, first, last, factor, turned)
