"""Raw rows: sixteen float64 with the statistics of one tensor (columns: core.statistics)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sonde.core.statistics import (
    AVG,
    COUNT,
    FINITE_MAX,
    FINITE_MIN,
    MAX,
    ROW_COLUMNS,
    Statistics,
)
from sonde.kernels.codes import dtype_code

_FIRST_FLOAT_CODE = dtype_code("float16")
_WIDE = {dtype_code("int64"): np.int64, dtype_code("uint64"): np.uint64}


def statistics_from_row(row: NDArray[np.float64] | Sequence[float], dtype: str) -> Statistics:
    """The statistics in a full row (``summarize_into``) of a tensor of ``dtype``.

    ValueError for an outline row (``outline_into``), which lacks some of them.
    """
    values = np.asarray(row, np.float64)
    if values.shape != (ROW_COLUMNS,):
        raise ValueError(f"a row has {ROW_COLUMNS} numbers, not {values.shape}")
    if np.isnan(values[:MAX]).any():
        raise ValueError("an outline row has no counts of zeros and signs")
    counts = [int(count) for count in values[:MAX]]
    extremes = _extremes(values, dtype_code(dtype))
    return Statistics(*counts, *extremes, *values[AVG : AVG + 4].tolist())


def _extremes(values: NDArray[np.float64], code: int) -> list[float | int]:
    """Max, min, finite max, finite min; of integers exact."""
    if code >= _FIRST_FLOAT_CODE or values[COUNT] == 0:
        floats: list[float | int] = values[MAX:AVG].tolist()
        return floats
    if code in _WIDE:
        bits = values[FINITE_MAX : FINITE_MIN + 1].view(_WIDE[code])
        return [int(bits[0]), int(bits[1])] * 2
    return [int(value) for value in values[MAX:AVG]]
