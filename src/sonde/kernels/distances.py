"""Numbers that say how two tensors of the same shape differ, from one pass over both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

PAIR_COLUMNS: Final = 18
"""Float64 in a raw row of ``compare_strided_into``; the fields of Distances, in order."""
_COUNTS = 8


@dataclass(frozen=True, slots=True)
class Distances:
    """How tensor a differs from tensor b, the reference.

    Errors, norms and directions are over the pairs in which both elements are finite, and NaN
    without such a pair; all arithmetic is in float64 on elements widened without rounding.

    - ``nan_agreed``: NaN on both sides; ``inf_agreed``: the same infinity on both sides;
      ``non_finite_disagreed``: every other pair with an element that is not finite.
    - ``equal_count``: finite pairs with the same value (0.0 and -0.0 are the same).
    - relative error of a pair: |a - b| / max(|a|, |b|), 0 for two zeros: symmetric and at most 2.
      ``within_1`` and ``within_5`` count those up to 1/1000 and 5/1000.
    - ``cosine``: 1 for equal tensors, two of zeros included; 0 if only one is all zeros.
    - ``relative_l2``: |a - b| / |b| as norms; 0 for equal tensors, inf if only b is all zeros.
    - ``max_ulp``: the most representable numbers between two elements; NaN unless both tensors
      have the same floating dtype.
    """

    count: int
    finite_count: int
    nan_agreed: int
    inf_agreed: int
    non_finite_disagreed: int
    equal_count: int
    within_1: int
    within_5: int
    max_abs_error: float
    mean_abs_error: float
    max_relative_error: float
    mean_relative_error: float
    cosine: float
    relative_l2: float
    max_ulp: float
    l2_error: float
    norm_a: float
    norm_b: float

    @property
    def is_equal(self) -> bool:
        """Every pair has the same value; NaN equals NaN here."""
        return self.count == self.equal_count + self.nan_agreed + self.inf_agreed


def distances_from_row(row: NDArray[np.float64] | Sequence[float]) -> Distances:
    """The distances in a raw row of ``compare_strided_into``."""
    values = np.asarray(row, np.float64).tolist()
    if len(values) != PAIR_COLUMNS:
        raise ValueError(f"a row of distances has {PAIR_COLUMNS} numbers, not {len(values)}")
    return Distances(*(int(value) for value in values[:_COUNTS]), *values[_COUNTS:])
