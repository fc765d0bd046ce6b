"""Counts the elements of a tensor in bins of equal width."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sonde.core.statistics import Statistics

Bars = tuple[tuple[float, ...], tuple[int, ...]]
"""The edges of the bins, and the number of elements in each."""
_BLOCK: Final = 1 << 16
_NARROW: Final = 1e-9
_TINY: Final = 1e-280


def histogram(array: NDArray[Any], statistics: Statistics, bins: int) -> Bars | None:
    """Finite elements in ``bins`` bins of equal width from the smallest to the largest.

    None without finite elements; one bin where all are equal.
    """
    low, high = float(statistics.finite_min), float(statistics.finite_max)
    finite = statistics.count - statistics.non_finite_count
    if not finite:
        return None
    if low == high:
        return (low, high), (finite,)
    # In quarters: the width of the full range of float64 overflows float64, and half of it is so
    # close to the maximum that dividing it into bins and adding these up again may overflow.
    edges = np.linspace(low / 4, high / 4, bins + 1) * 4
    edges[0], edges[-1] = low, high
    counts = np.zeros(bins, np.int64)
    flat = array.reshape(-1)
    for start in range(0, flat.size, _BLOCK):
        block = flat[start : start + _BLOCK].astype(np.float64)
        if statistics.non_finite_count:
            block = block[np.isfinite(block)]
        counts += np.bincount(_places(block, edges), minlength=bins)
    return tuple(edges.tolist()), tuple(counts.tolist())


def _places(block: NDArray[np.float64], edges: NDArray[np.float64]) -> NDArray[np.intp]:
    """The bin of each element: the last one whose lower edge is not above it.

    Bins are of equal width, so the bin is computed, and then corrected by comparing with the edges,
    because the computation may be wrong in the last bit; numpy.histogram does the same.
    """
    bins = len(edges) - 1
    low, high = float(edges[0]), float(edges[-1])
    width = high / 2 - low / 2
    if width < max(_NARROW * bins * max(-low, high), _TINY):  # One bit may be more than a bin.
        return np.asarray(np.searchsorted(edges[1:-1], block, "right"))
    places = ((block / 2 - low / 2) * (bins / width)).astype(np.intp)
    np.minimum(places, bins - 1, out=places)
    places -= block < edges[places]
    places += (block >= edges[places + 1]) & (places != bins - 1)
    return places
