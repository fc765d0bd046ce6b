"""Raw rows: their columns, exact integers, outlines, and rows back to statistics."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from sonde import kernels
from sonde.core import statistics as columns


def row_of(array: NDArray[np.generic], *, outline: bool = False) -> NDArray[np.float64]:
    row = np.full(columns.ROW_COLUMNS, -1.0)
    into = kernels.outline_into if outline else kernels.summarize_into
    into(row.ctypes.data, array.ctypes.data, kernels.dtype_code(array.dtype.name), array.size)
    return row


VALUES = np.array([3.0, -4.0, 0.0, 12.0], np.float32)


def test_the_columns_of_a_row_are_the_documented_ones(path: str) -> None:
    row = row_of(VALUES)
    assert row[columns.COUNT] == 4
    assert row[columns.NAN_COUNT] == 0
    assert row[columns.POSITIVE_INF_COUNT] == 0
    assert row[columns.NEGATIVE_INF_COUNT] == 0
    assert row[columns.ZERO_COUNT] == 1
    assert row[columns.NEGATIVE_COUNT] == 1
    assert row[columns.POSITIVE_COUNT] == 2
    assert row[columns.MAX] == row[columns.FINITE_MAX] == 12
    assert row[columns.MIN] == row[columns.FINITE_MIN] == -4
    assert row[columns.AVG] == 2.75
    assert row[columns.L2NORM] == 13
    assert row[columns.STD] == pytest.approx(VALUES.astype(float).std(), rel=1e-15)
    assert row[columns.ABS_MEAN] == 4.75
    assert row[columns.DTYPE] == kernels.dtype_code("float32")
    assert row.shape == (16,)


@pytest.mark.parametrize("name", [name for name in kernels.DTYPES if hasattr(np, name)])
def test_a_row_turns_back_into_the_statistics(path: str, name: str) -> None:
    array = np.array([0, 1, 1, 0, 1] * 100).astype(name)
    assert kernels.statistics_from_row(row_of(array), name) == kernels.summarize_array(array)
    empty = kernels.statistics_from_row(row_of(array[:0]), name)
    assert empty.count == 0
    assert math.isnan(empty.max)


@pytest.mark.parametrize(
    ("name", "high", "low"),
    [
        ("int64", 2**63 - 2, -(2**63) + 1),
        ("uint64", 2**64 - 2, 2**63 + 1),
        # Bits that are a signalling NaN when taken for a float64.
        ("uint64", 0x7FF0000000000001, 0x7FF0000000000001),
    ],
)
def test_64_bit_integers_keep_every_bit_in_the_finite_columns(
    path: str, name: str, high: int, low: int
) -> None:
    row = row_of(np.array([high, low], name))
    assert int(row[columns.FINITE_MAX : columns.FINITE_MAX + 1].view(name)[0]) == high
    assert row[columns.MAX] == float(high), "and a number anybody can use in the plain one"
    found = kernels.statistics_from_row(row, name)
    assert (found.max, found.min, found.finite_max, found.finite_min) == (high, low, high, low)


@pytest.mark.parametrize("name", ["float16", "float32", "float64", "int8", "int64"])
def test_an_outline_has_the_same_numbers_in_fewer_columns(path: str, name: str) -> None:
    array = (np.random.default_rng(0).standard_normal(10_000) * 50).astype(name)
    full, outline = row_of(array), row_of(array, outline=True)
    missing = [
        columns.ZERO_COUNT,
        columns.NEGATIVE_COUNT,
        columns.POSITIVE_COUNT,
        columns.AVG,
        columns.STD,
        columns.ABS_MEAN,
    ]
    assert np.isnan(outline[missing]).all()
    kept = [column for column in range(columns.ROW_COLUMNS) if column not in missing]
    assert outline[kept].tobytes() == full[kept].tobytes()
    with pytest.raises(ValueError, match="an outline row"):
        kernels.statistics_from_row(outline, name)


def test_an_outline_sees_what_is_not_finite(path: str) -> None:
    values = np.array([1.0, math.nan, math.inf, -math.inf, -2.0])
    row = row_of(values, outline=True)
    assert row[[1, 2, 3]].tolist() == [1, 1, 1]
    assert row[[columns.FINITE_MAX, columns.FINITE_MIN]].tolist() == [1, -2]
    transposed = np.full((3, 4), 2.0, np.float32).T
    kernels.outline_strided_into(row.ctypes.data, transposed.ctypes.data, 11, (4, 3), (1, 4))
    assert row[columns.L2NORM] == pytest.approx(math.sqrt(48))


def test_a_row_of_the_wrong_length_is_refused() -> None:
    with pytest.raises(ValueError, match="a row has 16 numbers"):
        kernels.statistics_from_row([1.0, 2.0], "float32")
