"""Chooses the points of a long curve that matter to the eye."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def thinned(y: NDArray[np.float64], most: int) -> list[int]:
    """Indices of the points to draw: all, or each column's extremes and first gap."""
    if len(y) <= most:
        return list(range(len(y)))
    kept: set[int] = set()
    for part in np.array_split(np.arange(len(y)), most // 2):
        finite = part[np.isfinite(y[part])]
        if finite.size:
            kept |= {int(finite[np.argmin(y[finite])]), int(finite[np.argmax(y[finite])])}
        if finite.size < part.size:
            kept.add(int(part[~np.isfinite(y[part])][0]))
    return sorted(kept)
