"""Rows as CSV: the same bytes from every path, and every number reads back as itself."""

from __future__ import annotations

import csv
import io
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sonde import kernels
from sonde.core.statistics import CATEGORIES, ROW_COLUMNS, raw_column

STAMPS = np.array([1700000000000001, 1700000000000002], np.int64)


def rows_of(*arrays: NDArray[np.generic]) -> NDArray[np.float64]:
    rows = np.empty((len(arrays), ROW_COLUMNS))
    for row, array in zip(rows, arrays, strict=True):
        code = kernels.dtype_code(array.dtype.name)
        kernels.summarize_into(row.ctypes.data, array.ctypes.data, code, array.size)
    return rows


def test_a_line_is_head_stamp_tail_and_the_chosen_columns(path: str) -> None:
    rows = rows_of(np.array([0.5, -2.0], np.float32), np.array([7, -7, 0], np.int64))
    text = kernels.format_rows(
        [b"add,a,0,0,", b"mul,b,0,0,"],
        [b",input,0,8,Float32,(2),", b",output,0,24,Int64,(3),"],
        STAMPS,
        rows,
        [raw_column(name) for name in ("max", "min", "avg", "count", "zero count", "l2norm")],
    )
    assert text == (
        b"add,a,0,0,1700000000000001,input,0,8,Float32,(2),0.5,-2.0,-0.75,2,0,2.0615528128088303\n"
        b"mul,b,0,0,1700000000000002,output,0,24,Int64,(3),7,-7,0.0,3,1,9.899494936611665\n"
    )


def test_a_row_without_head_is_left_out(path: str) -> None:
    rows = rows_of(np.ones(2), np.full(2, 3.0))
    assert kernels.format_rows([None, b""], [b"", b","], STAMPS, rows, [7]) == (
        b"1700000000000002,3.0\n"
    )


def test_texts_are_in_their_columns(path: str) -> None:
    rows = rows_of(np.ones(2), np.full(2, 3.0))
    columns = [raw_column(name) for name in ("max", "md5", "min", "xxh3")]
    text = kernels.format_rows(
        [b"", b""], [b",", b","], STAMPS, rows, columns, ([b"aa", b"bb"], [b"cc", b"dd"])
    )
    assert text == b"1700000000000001,1.0,aa,1.0,cc\n1700000000000002,3.0,bb,3.0,dd\n"


def test_non_finite_numbers_read_back(path: str) -> None:
    rows = rows_of(np.array([math.nan, 1.0]), np.array([math.inf, -math.inf]))
    text = kernels.format_rows([b"", b""], [b",", b","], STAMPS, rows, [7, 8, 11, 12])
    assert text == b"1700000000000001,nan,nan,nan,nan\n1700000000000002,inf,-inf,nan,inf\n"
    read = [[float(cell) for cell in line] for line in csv.reader(io.StringIO(text.decode()))]
    assert np.isnan(read[0][1:]).all()
    assert read[1][1:3] == [math.inf, -math.inf]


def test_integers_are_written_with_every_digit(path: str) -> None:
    rows = rows_of(
        np.array([2**63 - 1, -(2**63)], np.int64), np.array([2**64 - 1, 2**63 + 1], np.uint64)
    )
    text = kernels.format_rows([b"", b""], [b",", b","], STAMPS, rows, [7, 8, 9, 10])
    assert text.splitlines()[0].endswith(
        b",9223372036854775807,-9223372036854775808,9223372036854775807,-9223372036854775808"
    )
    assert text.splitlines()[1].endswith(b",18446744073709551615,9223372036854775809" * 2)
    small = rows_of(np.array([True, False]), np.array([-128, 127], np.int8))
    text = kernels.format_rows([b"", b""], [b",", b","], STAMPS, small, [7, 8])
    assert text == b"1700000000000001,1,0\n1700000000000002,127,-128\n"


def test_an_empty_tensor_has_nan_where_it_has_no_number(path: str) -> None:
    rows = rows_of(np.empty(0, np.int64), np.empty(0, np.float32))
    text = kernels.format_rows([b"", b""], [b",", b","], STAMPS, rows, [0, 7, 8, 11, 12])
    assert text == b"1700000000000001,0,nan,nan,nan,0.0\n1700000000000002,0,nan,nan,nan,0.0\n"


def test_an_outline_has_nan_for_the_counts_it_lacks(path: str) -> None:
    row = np.empty((1, 16))
    values = np.ones(3, np.float32)
    kernels.outline_into(row.ctypes.data, values.ctypes.data, kernels.dtype_code("float32"), 3)
    text = kernels.format_rows([b""], [b","], STAMPS[:1], row, [0, 4, 5, 6, 12])
    assert text == b"1700000000000001,3,nan,nan,nan,1.7320508075688772\n"


@pytest.mark.parametrize(
    "value",
    [
        *(0.0, 1.0, -1.5, 0.1, 1e15, 1e16, 1e17, 123456789012345680.0, 1e-4, 1e-5, 1.5e-7),
        *(1.7976931348623157e308, 2.2250738585072014e-308, 5e-324, 1e22, 1e23, 3e38),
        *(9999999999999998.0, 99999999999999990.0, 0.00012345, 0.000099999, 100.0, 1234.5678),
    ],
)
def test_numbers_are_written_as_repr_writes_them(path: str, value: float) -> None:
    rows = np.zeros((2, ROW_COLUMNS))
    rows[:, 15] = kernels.dtype_code("float64")
    rows[0, 11], rows[1, 11] = value, -value
    text = kernels.format_rows([b"", b""], [b",", b","], STAMPS, rows, [11])
    cells = [line.split(b",")[1] for line in text.splitlines()]
    assert cells == [repr(value).encode(), repr(-value).encode()]


@given(st.lists(st.floats(), min_size=1, max_size=50))
@settings(max_examples=300, deadline=None)
def test_any_number_reads_back_as_itself_and_all_paths_write_the_same(values: list[float]) -> None:
    rows = np.zeros((len(values), ROW_COLUMNS))
    rows[:, 15] = kernels.dtype_code("float64")
    rows[:, 11] = values
    stamps = np.zeros(len(values), np.int64)
    before = kernels.current_path()
    try:
        for path in kernels.available_paths():
            kernels.use_path(path)
            text = kernels.format_rows(
                [b""] * len(values), [b","] * len(values), stamps, rows, [11]
            )
            assert text == b"".join(b"0,%b\n" % repr(value).encode() for value in values)
    finally:
        kernels.use_path(before)


def test_rows_that_do_not_fit_together_are_refused(path: str) -> None:
    rows = rows_of(np.ones(2), np.ones(2))
    with pytest.raises(ValueError, match="fewer heads or tails than rows"):
        kernels.format_rows([b""], [b""], STAMPS, rows, [7])
    with pytest.raises(ValueError, match="1 timestamps for 2 rows"):
        kernels.format_rows([b"", b""], [b"", b""], STAMPS[:1], rows, [7])
    with pytest.raises(ValueError, match="column 16: there are 16 and 0 texts"):
        kernels.format_rows([b"", b""], [b"", b""], STAMPS, rows, [16])
    with pytest.raises(TypeError):
        kernels.format_rows(["", ""], [b"", b""], STAMPS, rows, [7])  # type: ignore[list-item]


def test_every_category_has_a_column_of_its_own() -> None:
    found = [category.column for category in CATEGORIES.values()]
    assert len(set(found)) == len(found)
