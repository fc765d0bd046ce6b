"""The functions of the native kernels in numpy, for installations without a compiler; slow.

They agree with every native path exactly in counts, extremes and text, and to 1e-12 in sums. They
read a tensor in chunks and never copy it whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import frexp, inf, isnan, ldexp, nan, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sonde.core.statistics import FINITE_MAX, NOT_IN_OUTLINE, ROW_COLUMNS
from sonde.kernels import memory
from sonde.kernels.codes import DTYPES, dtype_code
from sonde.kernels.low_precision import numbers, storage_of

CHUNK = 1 << 16
FIRST_FLOAT_CODE = dtype_code("float16")
_WIDE_CODES = (dtype_code("int64"), dtype_code("uint64"))
# Squares of float64 beyond these overflow or underflow: sums then have a power of two as unit.
HUGE, TINY = 2.0**480, 2.0**-480

Shape = Sequence[int]


def raw_elements(address: int, code: int, shape: Shape, strides: Shape | None) -> NDArray[Any]:
    """The tensor at ``address`` as an array of the storage type of its dtype, not copied."""
    return memory.view(address, storage_of(DTYPES[code]), shape, strides)


def _chunks(raw: NDArray[Any], code: int) -> Iterator[NDArray[Any]]:
    """The elements as numbers numpy has, in one dimension, a chunk at a time, in memory order.

    Only a tensor with gaps is copied, in parts.
    """
    if not raw.size:
        return
    iterator: Any = np.nditer(
        raw, flags=["external_loop", "buffered"], op_flags=["readonly"], buffersize=CHUNK
    )
    for chunk in iterator:
        for start in range(0, chunk.size, CHUNK):
            yield numbers(chunk[start : start + CHUNK], DTYPES[code])


def _summarize(raw: NDArray[Any], code: int) -> NDArray[np.float64]:
    counts = np.zeros(7, np.int64)
    counts[0] = raw.size
    extremes: list[Any] = []
    for chunk in _chunks(raw, code):
        finite = chunk
        if code >= FIRST_FLOAT_CODE:
            counts[1] += np.count_nonzero(np.isnan(chunk))
            counts[2] += np.count_nonzero(chunk == inf)
            counts[3] += np.count_nonzero(chunk == -inf)
            finite = chunk[np.isfinite(chunk)]
        counts[4] += np.count_nonzero(chunk == 0)
        counts[5] += np.count_nonzero(chunk < 0)
        counts[6] += np.count_nonzero(chunk > 0)
        if finite.size:
            extremes += [finite.max(), finite.min()]
    row = np.full(ROW_COLUMNS, nan)
    row[:7] = counts
    row[7:11] = _extremes(extremes, counts)
    row[11:15] = _means(raw, code, counts, row[9:11])
    if code in _WIDE_CODES and extremes:
        integers = np.array([max(extremes), min(extremes)], DTYPES[code])
        row[FINITE_MAX : FINITE_MAX + 2].view(DTYPES[code])[:] = integers
    row[15] = code
    return row


def _extremes(finite: list[Any], counts: NDArray[np.int64]) -> tuple[float, float, float, float]:
    """Max, min, finite max and finite min, as float64. A zero has no sign."""
    high = float(max(finite)) + 0.0 if finite else nan
    low = float(min(finite)) + 0.0 if finite else nan
    _, nans, positive, negative = counts[:4]
    if nans:
        return nan, nan, high, low
    highest = inf if positive else (high if finite else -inf if negative else nan)
    lowest = -inf if negative else (low if finite else inf if positive else nan)
    return highest, lowest, high, low


def _means(
    raw: NDArray[Any], code: int, counts: NDArray[np.int64], extremes: NDArray[np.float64]
) -> tuple[float, float, float, float]:
    """Average, l2norm, std and mean magnitude over all elements, NaN and Inf included."""
    count, nans, positive, negative = counts[:4]
    if nans:
        return nan, nan, nan, nan
    if positive and negative:
        return nan, inf, nan, inf
    if positive or negative:
        return (inf if positive else -inf), inf, nan, inf
    if not count:
        return nan, 0.0, nan, nan
    return _finite_means(raw, code, float(extremes[0]), float(extremes[1]))


def _finite_means(
    raw: NDArray[Any], code: int, high: float, low: float
) -> tuple[float, float, float, float]:
    """``_means`` of a tensor with only finite elements, in units of a power of two."""
    largest = max(abs(high), abs(low))
    exponent = 0 if TINY <= largest <= HUGE or not largest else frexp(largest)[1]

    def chunks() -> Iterator[NDArray[np.float64]]:
        for chunk in _chunks(raw, code):
            wide = chunk.astype(np.float64)
            yield np.ldexp(wide, -exponent) if exponent else wide

    count = raw.size
    total = magnitudes = squares = 0.0
    for chunk in chunks():
        total += float(chunk.sum())
        magnitudes += float(np.abs(chunk).sum())
        squares += float(np.square(chunk).sum())
    mean = total / count
    residue = deviations = 0.0
    for chunk in chunks():
        distances = chunk - mean
        # The mean is rounded; the sum of the distances, which should be zero, says by how much.
        residue += float(distances.sum())
        deviations += float(np.square(distances).sum())
    variance = max(0.0, deviations - residue * residue / count) / count
    is_constant = high == low
    return (
        high if is_constant else _scaled(mean + residue / count, exponent) + 0.0,
        _scaled(sqrt(squares), exponent),
        0.0 if is_constant else _scaled(sqrt(variance), exponent),
        abs(high) if is_constant else _scaled(magnitudes / count, exponent),
    )


def _scaled(value: float, exponent: int) -> float:
    try:
        return ldexp(value, exponent)
    except OverflowError:
        return inf if value > 0 else -inf


def _write(out_address: int, row: NDArray[np.float64]) -> None:
    memory.view(out_address, "float64", (ROW_COLUMNS,))[:] = row


def summarize_into(out_address: int, address: int, dtype_code: int, numel: int, /) -> None:
    summarize_strided_into(out_address, address, dtype_code, (numel,), None)


def summarize_strided_into(
    out_address: int, address: int, dtype_code: int, shape: Shape, strides: Shape | None, /
) -> None:
    _write(out_address, _summarize(raw_elements(address, dtype_code, shape, strides), dtype_code))


def outline_into(out_address: int, address: int, dtype_code: int, numel: int, /) -> None:
    outline_strided_into(out_address, address, dtype_code, (numel,), None)


def outline_strided_into(
    out_address: int, address: int, dtype_code: int, shape: Shape, strides: Shape | None, /
) -> None:
    row = _summarize(raw_elements(address, dtype_code, shape, strides), dtype_code)
    row[list(NOT_IN_OUTLINE)] = nan
    _write(out_address, row)


def non_finite(address: int, dtype_code: int, numel: int, /) -> int:
    return non_finite_strided(address, dtype_code, (numel,), None)


def non_finite_strided(
    address: int, dtype_code: int, shape: Shape, strides: Shape | None, /
) -> int:
    if dtype_code < FIRST_FLOAT_CODE:
        return 0
    raw = raw_elements(address, dtype_code, shape, strides)
    return sum(
        chunk.size - int(np.count_nonzero(np.isfinite(chunk))) for chunk in _chunks(raw, dtype_code)
    )


def copy_range_into(
    out_address: int,
    address: int,
    itemsize: int,
    shape: Shape,
    strides: Shape | None,
    begin: int,
    end: int,
    /,
) -> None:
    source = memory.view(address, f"V{itemsize}", shape, strides)
    if end > source.size:
        raise ValueError("copy_range_into: the range ends beyond the tensor")
    target = memory.view(out_address, f"V{itemsize}", (end - begin,))
    target[:] = source.flat[begin:end]


def format_rows(
    heads: Sequence[bytes | None],
    tails: Sequence[bytes],
    timestamps_address: int,
    rows_address: int,
    row_count: int,
    columns: Sequence[int],
    texts: Sequence[Sequence[bytes]],
    /,
) -> bytes:
    if len(heads) < row_count or len(tails) < row_count:
        raise ValueError("format_rows: fewer heads or tails than rows")
    for column in columns:
        if not 0 <= column < ROW_COLUMNS + len(texts):
            raise ValueError(f"column {column}: there are {ROW_COLUMNS} and {len(texts)} texts")
    stamps = memory.view(timestamps_address, "int64", (row_count,)).tolist()
    rows = memory.view(rows_address, "float64", (row_count, ROW_COLUMNS))
    lines: list[bytes] = []
    for i in range(row_count):
        head = heads[i]
        if head is None:
            continue
        cells = (
            texts[column - ROW_COLUMNS][i] if column >= ROW_COLUMNS else _cell(rows[i], column)
            for column in columns
        )
        lines.append(b"%b%d%b%b\n" % (head, stamps[i], tails[i], b",".join(cells)))
    return b"".join(lines)


def _cell(row: NDArray[np.float64], column: int) -> bytes:
    value = float(row[column])
    code = int(row[15])
    if column < 7 and not isnan(value):
        return b"%d" % int(value)
    if 7 <= column <= 10 and code < FIRST_FLOAT_CODE:
        if row[0] == 0:
            return b"nan"
        if code in _WIDE_CODES:
            place = FINITE_MAX if column in (7, 9) else FINITE_MAX + 1
            return b"%d" % int(row[place : place + 1].view(DTYPES[code])[0])
        return b"%d" % int(value)
    return repr(value).encode()


def thread_limit(limit: int, /) -> int:
    """Check and ignore the limit: numpy uses one thread here."""
    if not 1 <= limit <= 4096:
        raise ValueError("thread_limit: between 1 and 4096")
    return 1
