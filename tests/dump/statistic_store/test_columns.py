"""Raw rows as columns of Parquet files, and back."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.trends.made_stores import raw_row

from sonde.core.statistics import CATEGORIES, HASHES, raw_column
from sonde.dump.statistic_store.columns import (
    COLUMN_OF,
    columns_of_rows,
    hash_column,
    hash_text,
    raw_rows,
    rounded,
)

NUMBERS = [name for name in CATEGORIES if name not in HASHES]
AWKWARD = [
    np.array([], np.float32),
    np.array(3.5, np.float64),
    np.array([np.nan, 1.0, -np.inf, np.inf, -0.0, 0.0], np.float32),
    np.array([1e308, -1e308, 1e-310], np.float64),
    np.array([True, False, True]),
    np.array([2**62, -5, 2**53 + 1], np.int64),
    np.array([2**64 - 1, 0], np.uint64),
    np.array([1.5, -2.25], np.float16),
    np.array([-128, 127], np.int8),
]


def test_extremes_and_counts_are_exact_and_sums_have_24_bits() -> None:
    rows = np.stack([raw_row(array) for array in AWKWARD])
    columns = columns_of_rows(rows, NUMBERS)
    for name in NUMBERS:
        column = COLUMN_OF[name]
        expected = rows[:, raw_column(name)]
        if column in ("finite_max", "finite_min"):  # The raw row has the bits of wide integers.
            expected = rows[:, raw_column(column.removeprefix("finite_"))]
            wide = np.array([array.dtype in (np.int64, np.uint64) for array in AWKWARD])
            np.testing.assert_array_equal(columns[column][wide], expected[wide])
        elif column in ("avg", "l2norm", "std", "abs_mean"):
            np.testing.assert_allclose(columns[column], expected, rtol=2**-24)
        else:
            np.testing.assert_array_equal(columns[column], expected)
    finite = [np.isfinite(each.astype(np.float64)) for each in AWKWARD]
    non_finite = [int((~each).sum()) for each in finite]
    np.testing.assert_array_equal(columns["non_finite_count"], non_finite)


@given(st.lists(st.floats(width=64), min_size=1))
def test_rounding_is_that_of_float32_with_the_range_of_float64(values: list[float]) -> None:
    array = np.array(values)
    found = rounded(array)
    normal = np.isfinite(array) & (np.abs(array) > 1e-300) & (np.abs(array) < 1e300)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(array))
    np.testing.assert_array_equal(np.isinf(found), np.isinf(array))
    np.testing.assert_allclose(found[normal], array[normal], rtol=2**-24)
    small = normal & (np.abs(array) > 1e-30) & (np.abs(array) < 1e30)
    near = np.abs(found[small] - array[small])
    best = np.abs(array[small].astype(np.float32).astype(np.float64) - array[small])
    np.testing.assert_array_equal(near, best)


@given(st.lists(st.binary(min_size=16, max_size=16), max_size=5))
def test_a_hash_is_kept_as_its_first_64_bits(hashes: list[bytes]) -> None:
    found = hash_column([each.hex().encode() for each in hashes])
    assert [hash_text(int(each)) for each in found] == [each.hex()[:16] for each in hashes]


def test_raw_rows_are_restored_for_the_text_form() -> None:
    rows = np.stack([raw_row(array) for array in AWKWARD])
    columns = columns_of_rows(rows, NUMBERS)
    again = raw_rows(columns, [str(array.dtype) for array in AWKWARD])
    for name in ("max", "min", "count", "zero count", "nan count"):
        column = raw_column(name)
        np.testing.assert_array_equal(again[:, column], rows[:, column])
