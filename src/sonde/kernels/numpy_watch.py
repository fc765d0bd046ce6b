"""The counts that watch conditions need besides statistics, in numpy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sonde.kernels import memory
from sonde.kernels.codes import DTYPES
from sonde.kernels.low_precision import numbers, storage_of

Shape = Sequence[int]


def count_between(
    address: int, code: int, shape: Shape, strides: Shape | None, low: float, high: float, /
) -> int:
    values = numbers(memory.view(address, storage_of(DTYPES[code]), shape, strides), DTYPES[code])
    wide = values.astype(np.float64)
    return int(np.count_nonzero((wide >= low) & (wide <= high)))


def tally_change(
    address_now: int,
    code_now: int,
    strides_now: Shape | None,
    address_before: int,
    code_before: int,
    strides_before: Shape | None,
    shape: Shape,
    rtol: float,
    atol: float,
    /,
) -> tuple[float, int]:
    now, before = (
        numbers(memory.view(address, storage_of(DTYPES[code]), shape, strides), DTYPES[code])
        for address, code, strides in (
            (address_now, code_now, strides_now),
            (address_before, code_before, strides_before),
        )
    )
    x, p = now.astype(np.float64), before.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        distance = np.abs(x - p)
        close = distance <= atol + rtol * np.abs(p)
    return float(distance.sum()), int(distance.size - np.count_nonzero(close))
