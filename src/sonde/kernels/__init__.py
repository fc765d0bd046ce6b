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
from sonde.core.statistics import ROW_COLUMNS, Statistics
from sonde.kernels import digest as _digest
from sonde.kernels import numpy_pairs as _numpy_pairs
from sonde.kernels import numpy_statistics as _numpy_statistics
from sonde.kernels import numpy_watch as _numpy_watch
from sonde.kernels.codes import DTYPES, dtype_code
from sonde.kernels.distances import PAIR_COLUMNS, Distances, distances_from_row
from sonde.kernels.rows import statistics_from_row

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
    "compare_into",
    "compare_strided_into",
    "count_between",
    "current_path",
    "distances_from_row",
    "dtype_code",
    "format_rows",
    "hash_md5",
    "hash_tensor",
    "hash_xxh3",
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
compare_into: Callable[[int, int, int, int, int, int], None]
"""``(out_address, address_a, code_a, address_b, code_b, numel)``: one row of PAIR_COLUMNS float64,
the fields of Distances, for contiguous elements; dtypes may differ."""
compare_strided_into: Callable[
    [int, int, int, Shape | None, int, int, Shape | None, Shape],
    None,
]
"""``(out_address, address_a, code_a, strides_a, address_b, code_b, strides_b, shape)``."""
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

_path = ""


def available_paths() -> tuple[str, ...]:
    """The paths that can be used here, the fastest first."""
    return (*(_native.paths() if _has_native else ()), "twin")


def current_path() -> str:
    return _path


def use_path(name: str) -> None:
    """Compute with path ``name`` from now on, in the whole process."""
    global summarize_into, summarize_strided_into, outline_into, outline_strided_into
    global non_finite, non_finite_strided, thread_limit, _format_rows, _copy_range, _path
    global compare_into, compare_strided_into, count_between, tally_change
    if name not in available_paths():
        raise UsageError(
            f"the kernel path {name!r} cannot be used here; choose from "
            f"{', '.join(available_paths())}",
            slug="kernel-path",
        )
    if name != "twin":
        _native.use_path(name)
    source = _numpy_statistics if name == "twin" else _native
    summarize_into = source.summarize_into
    summarize_strided_into = source.summarize_strided_into
    outline_into = source.outline_into
    outline_strided_into = source.outline_strided_into
    non_finite = source.non_finite
    non_finite_strided = source.non_finite_strided
    thread_limit = source.thread_limit
    pairs = _numpy_pairs if name == "twin" else _native
    compare_into = pairs.compare_into
    compare_strided_into = pairs.compare_strided_into
    watch = _numpy_watch if name == "twin" else _native
    count_between = watch.count_between
    tally_change = watch.tally_change
    _format_rows = source.format_rows
    _copy_range = source.copy_range_into
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


def hash_md5(address: int, dtype: str, shape: Shape, strides: Shape | None = None) -> str:
    """MD5 of the logical contents, 32 hexadecimal digits."""
    return hash_tensor("md5", address, dtype, shape, strides)


def hash_xxh3(address: int, dtype: str, shape: Shape, strides: Shape | None = None) -> str:
    """XXH3 (128 bits) of the logical contents, 32 hexadecimal digits; at the speed of memory."""
    return hash_tensor("xxh3", address, dtype, shape, strides)


def _choose_at_import() -> None:
    if not _has_native:
        logging.getLogger("sonde.kernels").warning(
            "the native kernels are not built, so numpy computes statistics, which is slow; "
            "install a C++ compiler and then Sonde again [slow-twin]"
        )
    use_path(os.environ.get("SONDE_KERNEL") or available_paths()[0])


_choose_at_import()
