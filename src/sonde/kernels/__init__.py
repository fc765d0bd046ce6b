"""The Python functions of the native kernels, and the choice between them and numpy.

``SONDE_KERNEL`` (avx512, avx2, neon, portable, or twin for numpy) or ``use_path`` forces a path;
the default is the fastest this machine runs. Call the functions through the module
(``kernels.summarize_into``), because ``use_path`` rebinds them. ``docs/statistics.md`` states what
they compute.

The functions that take addresses read memory the caller keeps alive. All are safe to call from any
thread; long calls release the GIL.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sonde.core.errors import SondeError, UsageError
from sonde.core.statistics import AVG, COUNT, FINITE_MAX, FINITE_MIN, MAX, ROW_COLUMNS, Statistics
from sonde.kernels import digest as _digest
from sonde.kernels import numpy_pairs as _numpy_pairs
from sonde.kernels import numpy_statistics as _numpy_statistics
from sonde.kernels.codes import DTYPES, dtype_code
from sonde.kernels.distances import PAIR_COLUMNS, Distances, distances_from_row

try:
    from sonde.kernels import _native
except ImportError:
    _has_native = False
else:
    _has_native = True

__all__ = [
    "DTYPES",
    "PAIR_COLUMNS",
    "Distances",
    "available_paths",
    "compare",
    "compare_arrays",
    "compare_strided_into",
    "count_between",
    "current_path",
    "distances_from_row",
    "dtype_code",
    "format_rows",
    "hash_tensor",
    "non_finite",
    "non_finite_strided",
    "outline_into",
    "outline_strided_into",
    "statistics_from_row",
    "summarize",
    "summarize_array",
    "summarize_into",
    "summarize_strided_into",
    "tally_change",
    "thread_limit",
    "use_path",
]

Shape = Sequence[int]

summarize_into: Callable[[int, int, int, int], None]
"""``(out_address, address, dtype_code, numel)``: one raw row for contiguous elements."""
summarize_strided_into: Callable[[int, int, int, Shape, Shape | None], None]
"""``(out_address, address, dtype_code, shape, strides)``: the same; strides in elements."""
outline_into: Callable[[int, int, int, int], None]
"""Like ``summarize_into``, in half the time: count, NaN and Inf counts, extremes and l2norm only;
the other columns are NaN."""
outline_strided_into: Callable[[int, int, int, Shape, Shape | None], None]
"""Like ``summarize_strided_into``, with the columns of ``outline_into``."""
non_finite: Callable[[int, int, int], int]
"""``(address, dtype_code, numel)``: how many contiguous elements are NaN or infinite."""
non_finite_strided: Callable[[int, int, Shape, Shape | None], int]
"""``(address, dtype_code, shape, strides)``: the same; strides in elements."""
compare_strided_into: Callable[
    [int, int, int, Shape | None, int, int, Shape | None, Shape],
    None,
]
"""``(out_address, address_a, code_a, strides_a, address_b, code_b, strides_b, shape)``: one row of
PAIR_COLUMNS float64, the fields of Distances; dtypes may differ."""
count_between: Callable[[int, int, Shape, Shape | None, float, float], int]
"""``(address, dtype_code, shape, strides, low, high)``: elements of low <= x <= high, compared
exactly; NaN is never counted."""
tally_change: Callable[
    [int, int, Shape | None, int, int, Shape | None, Shape, float, float], tuple[float, int]
]
"""``(address_now, code, strides, address_before, code, strides, shape, rtol, atol)``: the sum of
|now - before|, and how many elements changed by more than atol + rtol * |before|. An element with a
NaN or an infinity on either side counts as changed, also between equal infinities."""
thread_limit: Callable[[int], int]
"""Set the most threads one call may use (1 at first) and return the previous limit. Only tensors of
more than a million elements use several; results do not depend on it."""
_format_rows: Callable[
    [Sequence[bytes | None], Sequence[bytes], int, int, int, Shape, Sequence[Sequence[bytes]]],
    bytes,
]
_copy_range: _digest.CopyRange

_REBOUND = (
    *("summarize_into", "summarize_strided_into", "outline_into", "outline_strided_into"),
    *("non_finite", "non_finite_strided", "count_between", "tally_change"),
    "thread_limit",
)
"""Functions above that ``use_path`` rebinds, and that this module itself does not call."""
_NUMPY = {**vars(_numpy_statistics), **vars(_numpy_pairs)}
_FIRST_FLOAT_CODE = dtype_code("float16")
_WIDE = {dtype_code("int64"): np.int64, dtype_code("uint64"): np.uint64}
_path = ""


def available_paths() -> tuple[str, ...]:
    """The paths that can be used here, the fastest first."""
    return (*(_native.paths() if _has_native else ()), "twin")


def current_path() -> str:
    return _path


def use_path(name: str) -> None:
    """Compute with path ``name`` from now on, in the whole process."""
    global compare_strided_into, _format_rows, _copy_range, _path
    if name not in available_paths():
        raise UsageError(
            f"the kernel path {name!r} cannot be used here; choose from "
            f"{', '.join(available_paths())}",
            slug="kernel-path",
        )
    if name != "twin":
        _native.use_path(name)
    functions = _NUMPY if name == "twin" else vars(_native)
    globals().update({each: functions[each] for each in _REBOUND})
    compare_strided_into = functions["compare_strided_into"]
    _format_rows = functions["format_rows"]
    _copy_range = functions["copy_range_into"]
    _path = name


def summarize(address: int, dtype: str, shape: Shape, strides: Shape | None = None) -> Statistics:
    """The statistics of the tensor at ``address``; strides in elements, None for contiguous."""
    code = dtype_code(dtype)
    if _path == "twin":
        row = np.empty(ROW_COLUMNS)
        _numpy_statistics.summarize_strided_into(row.ctypes.data, address, code, shape, strides)
        return statistics_from_row(row, dtype)
    return Statistics(*_native.summarize_fields(address, code, shape, strides))


def summarize_array(array: NDArray[Any], dtype: str | None = None) -> Statistics:
    """The statistics of ``array``.

    ``dtype`` names the type of the elements where numpy does not know it: an array of uint16 may
    hold bfloat16, one of uint8 float8. Another byte order, or strides that are no multiple of
    the element size, cost a copy.
    """
    array, name, strides = _readable(array, dtype)
    return summarize(array.ctypes.data, name, array.shape, strides)


def _readable(array: NDArray[Any], dtype: str | None) -> tuple[NDArray[Any], str, tuple[int, ...]]:
    """The array, or a copy the kernels can read; the name of its dtype; strides in elements."""
    array = np.asarray(array)
    name = array.dtype.name if dtype is None else dtype
    if name not in DTYPES and array.dtype.kind not in "biufc":
        raise SondeError(f"an array of {array.dtype} has no statistics", slug="statistics-dtype")
    dtype_code(name)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    itemsize = array.dtype.itemsize
    if any(stride % itemsize for stride in array.strides):
        array = np.ascontiguousarray(array)
    return array, name, tuple(stride // itemsize for stride in array.strides)


def compare(
    address_a: int,
    dtype_a: str,
    address_b: int,
    dtype_b: str,
    shape: Shape,
    strides_a: Shape | None = None,
    strides_b: Shape | None = None,
) -> Distances:
    """How the tensor at ``address_a`` differs from the reference at ``address_b``."""
    row = np.empty(PAIR_COLUMNS)
    code_a, code_b = dtype_code(dtype_a), dtype_code(dtype_b)
    compare_strided_into(
        row.ctypes.data, address_a, code_a, strides_a, address_b, code_b, strides_b, shape
    )
    return distances_from_row(row)


def compare_arrays(
    a: NDArray[Any],
    b: NDArray[Any],
    dtype_a: str | None = None,
    dtype_b: str | None = None,
) -> Distances:
    """How ``a`` differs from the reference ``b``; dtypes as for ``summarize_array``."""
    a, name_a, strides_a = _readable(a, dtype_a)
    b, name_b, strides_b = _readable(b, dtype_b)
    if a.shape != b.shape:
        raise ValueError(f"arrays of shapes {a.shape} and {b.shape} cannot be compared")
    return compare(a.ctypes.data, name_a, b.ctypes.data, name_b, a.shape, strides_a, strides_b)


def format_rows(
    heads: Sequence[bytes | None],
    tails: Sequence[bytes],
    timestamps: NDArray[np.int64],
    rows: NDArray[np.float64],
    columns: Sequence[int],
    texts: Sequence[Sequence[bytes]] = (),
) -> bytes:
    """Raw rows as lines of CSV: head, timestamp, tail, then the columns separated by commas.

    A head of None leaves its row out. Column ROW_COLUMNS + k is the text ``texts[k][row]``.
    Counts and extremes of integers are written as integers, other numbers as ``repr`` does: the
    shortest digits that read back as the same float64; ``nan``, ``inf``, ``-inf``.
    """
    stamps = np.ascontiguousarray(timestamps, np.int64)
    block = np.ascontiguousarray(rows, np.float64).reshape(-1, ROW_COLUMNS)
    if len(stamps) != len(block):
        raise ValueError(f"format_rows: {len(stamps)} timestamps for {len(block)} rows")
    return _format_rows(
        heads, tails, stamps.ctypes.data, block.ctypes.data, len(block), columns, texts
    )


def hash_tensor(
    name: str, address: int, dtype: str, shape: Shape, strides: Shape | None = None
) -> str:
    """The hash called ``name`` (core.statistics.HASHES) of the logical contents, any dtype."""
    return _digest.digest(name, address, dtype, shape, strides, _copy_range)


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


def _choose_at_import() -> None:
    if not _has_native:
        logging.getLogger("sonde.kernels").warning(
            "the native kernels are not built, so numpy computes statistics, which is slow; "
            "install a C++ compiler and then Sonde again [slow-twin]"
        )
    use_path(os.environ.get("SONDE_KERNEL") or available_paths()[0])


_choose_at_import()
