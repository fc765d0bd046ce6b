"""The columns of the rows: raw rows of statistics as columns, and back.

Counts are integers, all others float64. Extremes are exact (integers beyond 2^53: rounded to
float64). Sums (average, norm, standard deviation, mean magnitude) are rounded to the 24 significant
bits of a float32, with the range of a float64: the bits that are zero take no space in a file. A
hash is its first 64 bits. NaN and the infinities stay what they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sonde.core.statistics import (
    CATEGORIES,
    DTYPE,
    FINITE_MAX,
    FINITE_MIN,
    HASHES,
    MAX,
    MIN,
    NAN_COUNT,
    NEGATIVE_INF_COUNT,
    POSITIVE_INF_COUNT,
    ROW_COLUMNS,
    Statistics,
)
from sonde.kernels.codes import dtype_code

NON_FINITE: Final = "non_finite_count"
"""NaN and infinities together: always a column, so that the first is found without a scan."""
HASH_DIGITS: Final = 16
NO_HASH: Final = b"0" * 32
"""The hash of a row that is no tensor."""
SIGNAL_POSITION: Final = 1 << 30
"""Rows of signals have positions from here on: they follow the tensors of their step."""
IS_TENSOR: Final = f"position < {SIGNAL_POSITION}"
"""Whether a row of a file is a tensor of an op, in SQL."""

_FIELDS = tuple(field.name for field in fields(Statistics))
_SUMS = frozenset({"avg", "l2norm", "std", "abs_mean"})
_WIDE = (dtype_code("int64"), dtype_code("uint64"))
_DROPPED_BITS = 29  # of the 52 of a float64, so that 24 significant ones are left
COLUMN_OF: Final = {
    name: _FIELDS[each.column] if each.column < ROW_COLUMNS else name
    for name, each in CATEGORIES.items()
}
"""The column of each category of ``statistic_category``: ``nan count`` is ``nan_count``."""
STATISTICS: Final = (*_FIELDS, NON_FINITE)
"""The columns of numbers that a table may have."""


def columns_of_rows(rows: NDArray[np.float64], categories: Sequence[str]) -> dict[str, Any]:
    """The chosen columns of raw rows (``core.statistics``); not of hashes."""
    counts = rows[:, [NAN_COUNT, POSITIVE_INF_COUNT, NEGATIVE_INF_COUNT]].sum(axis=1)
    found: dict[str, Any] = {}
    for category in categories:
        if category in HASHES:
            continue
        name = COLUMN_OF[category]
        values = _values(rows, CATEGORIES[category].column)
        if name.endswith("count"):
            values = values.astype(np.int64)
        found[name] = rounded(values) if name in _SUMS else values
    found[NON_FINITE] = counts.astype(np.int64)
    return found


def _values(rows: NDArray[np.float64], column: int) -> NDArray[Any]:
    """A column; for wide integers the rounded extreme in place of the bits of the exact one."""
    values = rows[:, column].copy()
    if column in (FINITE_MAX, FINITE_MIN):
        wide = np.isin(rows[:, DTYPE], _WIDE)
        values[wide] = rows[wide, MAX if column == FINITE_MAX else MIN]
    return values


def rounded(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The nearest numbers with 24 significant bits; others than normal ones stay the same."""
    bits = values.view(np.int64)
    half = np.int64(1 << (_DROPPED_BITS - 1))
    near = ((bits + half) & ~np.int64((1 << _DROPPED_BITS) - 1)).view(np.float64)
    is_normal = np.isfinite(values) & (np.abs(values) >= np.finfo(np.float64).tiny)
    return np.where(is_normal & np.isfinite(near), near, values)


def hash_column(digests: Sequence[bytes]) -> NDArray[np.uint64]:
    """The first 64 bits of each hash, which is text of 32 hexadecimal digits."""
    # No loop in Python: it would keep the interpreter from the training thread.
    halves = np.frombuffer(bytes.fromhex(b"".join(digests).decode("ascii")), ">u8")
    return halves[::2].astype(np.uint64)


def hash_text(value: int) -> str:
    return f"{value:0{HASH_DIGITS}x}"


def raw_rows(columns: dict[str, NDArray[Any]], dtypes: Sequence[str]) -> NDArray[np.float64]:
    """Raw rows with these columns, as `columns_of_rows` made them; what is missing is NaN."""
    rows = np.full((len(dtypes), ROW_COLUMNS), np.nan)
    for number, name in enumerate(_FIELDS):
        if name in columns:
            rows[:, number] = columns[name]
    codes = np.array([dtype_code(dtype) for dtype in dtypes], np.float64)
    rows[:, DTYPE] = codes
    for code, kind in ((dtype_code("int64"), np.int64), (dtype_code("uint64"), np.uint64)):
        wide = codes == code
        for column, extreme in ((FINITE_MAX, MAX), (FINITE_MIN, MIN)):
            known = np.where(np.isnan(rows[wide, extreme]), rows[wide, column], rows[wide, extreme])
            most = np.nextafter(float(np.iinfo(kind).max), 0)  # A rounded one may be beyond it.
            exact = np.minimum(np.nan_to_num(known), most).astype(kind)
            rows[wide, column] = exact.view(np.float64)
    return rows
