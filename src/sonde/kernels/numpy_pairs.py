"""The numpy versions of the kernels that compare tensors and count elements for watchpoints.

For installations without the native kernels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf, nan, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sonde.kernels import memory
from sonde.kernels.codes import DTYPES, dtype_code
from sonde.kernels.distances import PAIR_COLUMNS
from sonde.kernels.low_precision import numbers
from sonde.kernels.numpy_statistics import CHUNK, FIRST_FLOAT_CODE, HUGE, TINY, raw_elements

_SMALLEST = np.finfo(np.float64).tiny
_UNSIGNED = dtype_code("float8_e8m0fnu")

Shape = Sequence[int]
Floats = NDArray[np.float64]


def compare_strided_into(
    out_address: int,
    address_a: int,
    code_a: int,
    strides_a: Shape | None,
    address_b: int,
    code_b: int,
    strides_b: Shape | None,
    shape: Shape,
    /,
) -> None:
    a = raw_elements(address_a, code_a, shape, strides_a)
    b = raw_elements(address_b, code_b, shape, strides_b)
    largest = _largest(a, b, code_a, code_b)
    scale = 2.0**-600 if largest > HUGE else 2.0**600 if 0 < largest < TINY else 1.0
    totals = _Totals(scale, code_a if code_a == code_b and code_a >= FIRST_FLOAT_CODE else None)
    for raw_a, raw_b in _chunks(a, b):
        totals.add(raw_a, raw_b, _wide(raw_a, code_a), _wide(raw_b, code_b))
    memory.view(out_address, "float64", (PAIR_COLUMNS,))[:] = totals.row()


def _chunks(a: NDArray[Any], b: NDArray[Any]) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    """Pairs of elements with the same index, in one dimension, a chunk at a time."""
    for start in range(0, a.size, CHUNK):
        yield a.flat[start : start + CHUNK], b.flat[start : start + CHUNK]


def _wide(raw: NDArray[Any], code: int) -> Floats:
    return numbers(raw, DTYPES[code]).astype(np.float64)


def _largest(a: NDArray[Any], b: NDArray[Any], code_a: int, code_b: int) -> float:
    """The largest magnitude among finite pairs."""
    largest = 0.0
    for raw_a, raw_b in _chunks(a, b):
        x, y = np.abs(_wide(raw_a, code_a)), np.abs(_wide(raw_b, code_b))
        both = np.isfinite(x) & np.isfinite(y)
        largest = max(largest, float(np.maximum(x, y)[both].max(initial=0.0)))
    return largest


class _Totals:
    """The sums of ``Distances`` over chunks; norms are in units of ``scale``."""

    def __init__(self, scale: float, ulp_code: int | None) -> None:
        self._scale = scale
        self._ulp_code = ulp_code
        self._counts = np.zeros(8, np.int64)
        self._sums = np.zeros(6)  # errors, relative errors, a·b, a·a, b·b, (a - b)·(a - b)
        self._largest = np.zeros(2)  # error, relative error
        self._ulp = 0

    def add(self, raw_a: NDArray[Any], raw_b: NDArray[Any], x: Floats, y: Floats) -> None:
        both = np.isfinite(x) & np.isfinite(y)
        nans = int(np.count_nonzero(np.isnan(x) & np.isnan(y)))
        infs = int(np.count_nonzero((x == y) & ~both))
        finite = int(np.count_nonzero(both))
        if self._ulp_code is not None and finite:
            self._ulp = max(self._ulp, _max_ulp(raw_a[both], raw_b[both], self._ulp_code))
        self._counts[:5] += (x.size, finite, nans, infs, x.size - finite - nans - infs)
        self._add_finite(x[both], y[both])

    def _add_finite(self, x: Floats, y: Floats) -> None:
        halves = np.maximum(np.maximum(np.abs(x), np.abs(y)) * 0.5, _SMALLEST)
        share = np.abs(x * 0.5 - y * 0.5) / halves
        u, v = x * self._scale, y * self._scale
        products = [float(each.sum()) for each in (u * v, u * u, v * v, np.square(u - v))]
        with np.errstate(over="ignore"):
            distance = np.abs(x - y)
            self._sums += (float(distance.sum()), float(share.sum()), *products)
        largest = distance.max(initial=0.0), share.max(initial=0.0)
        self._largest = np.maximum(self._largest, largest)
        self._counts[5:] += [
            np.count_nonzero(each) for each in (distance == 0, share <= 0.001, share <= 0.005)
        ]

    def row(self) -> list[float]:
        counts = [float(count) for count in self._counts]
        finite = counts[1]
        if not finite:
            return [*counts, *[nan] * (PAIR_COLUMNS - len(counts))]
        errors, shares, dot, *squares = self._sums.tolist()
        norm_a, norm_b, error = map(sqrt, squares)
        return [
            *counts,
            float(self._largest[0]),
            errors / finite,
            float(self._largest[1]),
            shares / finite,
            1.0 if counts[5] == finite else _cosine(dot, norm_a, norm_b),
            0.0 if error == 0 else error / norm_b if norm_b else inf,
            nan if self._ulp_code is None else float(self._ulp),
            error / self._scale,
            norm_a / self._scale,
            norm_b / self._scale,
        ]


def _cosine(dot: float, norm_a: float, norm_b: float) -> float:
    if not norm_a or not norm_b:
        return 1.0 if norm_a == norm_b else 0.0
    share = dot / max(norm_a, norm_b) / min(norm_a, norm_b)
    return max(-1.0, min(1.0, share))


def _max_ulp(raw_a: NDArray[Any], raw_b: NDArray[Any], code: int) -> int:
    """The largest distance in representable numbers between finite elements."""
    bits = np.dtype(f"u{raw_a.itemsize}")
    a, b = raw_a.view(bits), raw_b.view(bits)
    top = bits.type(1 << (8 * bits.itemsize - 1))
    sign = bits.type(0) if code == _UNSIGNED else top
    x, y = (a & ~sign).astype(np.uint64), (b & ~sign).astype(np.uint64)
    apart = np.maximum(x, y) - np.minimum(x, y)
    return int(np.where((a ^ b) & sign, x + y, apart).max())


def count_between(
    address: int, code: int, shape: Shape, strides: Shape | None, low: float, high: float, /
) -> int:
    wide = _wide(raw_elements(address, code, shape, strides), code)
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
    now = _wide(raw_elements(address_now, code_now, shape, strides_now), code_now)
    before = _wide(raw_elements(address_before, code_before, shape, strides_before), code_before)
    with np.errstate(invalid="ignore", over="ignore"):
        distance = np.abs(now - before)
        close = distance <= atol + rtol * np.abs(before)
    return float(distance.sum()), int(distance.size - np.count_nonzero(close))
