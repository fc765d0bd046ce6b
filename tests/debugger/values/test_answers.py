"""Answers about tensors, against numpy."""

import io
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from sonde.core.errors import UsageError
from sonde.debugger.values import answers
from sonde.debugger.values.answers import Values
from sonde.debugger.values.slices import parse_plane
from sonde.wire.questions import AskCompare, AskHeat, AskSummary, AskTable, Compared
from sonde.wire.shapes import TensorName

NAME = TensorName("Default/relu-op1")


def values(array: Any, dtype: str | None = None) -> Values:
    array = np.asarray(array)
    return Values(NAME, array, dtype or array.dtype.name)


def test_a_table_shows_the_elements_an_index_names() -> None:
    array = np.arange(24.0).reshape(2, 3, 4)
    table = answers.tabulate(values(array), "[1, :, 1:3]")
    assert table.values == tuple(array[1, :, 1:3].reshape(-1).tolist())
    assert (table.rows, table.columns) == (3, 2)
    assert (table.row_start, table.column_start, table.row_step, table.column_step) == (0, 1, 1, 1)
    assert table.index == "[1, :, 1:3]"


def test_an_empty_index_is_the_first_plane() -> None:
    array = np.arange(24).reshape(2, 3, 4)
    assert answers.tabulate(values(array)).values == tuple(range(12))
    assert answers.tabulate(values(array)).index == "[0, :, :]"


def test_tensors_of_less_than_two_dimensions_are_one_row() -> None:
    scalar = answers.tabulate(values(np.float32(2.5)))
    assert (scalar.rows, scalar.columns, scalar.values, scalar.index) == (1, 1, (2.5,), "[]")
    vector = answers.tabulate(values(np.array([1, 2, 3])), "[::-2]")
    assert (vector.rows, vector.columns, vector.values) == (1, 2, (3, 1))
    assert (vector.column_start, vector.column_step) == (2, -2)
    assert answers.tabulate(values(np.array([1, 2, 3])), vector.index).values == (3, 1)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (0, 2, 3), (2, 0, 0), (2, 3, 0)])
def test_a_tensor_without_elements_has_an_empty_table(shape: tuple[int, ...]) -> None:
    array = np.zeros(shape)
    assert answers.tabulate(values(array)).values == ()
    assert answers.draw_heat(values(array)).cells == ()
    assert answers.summarize(values(array)).histogram is None


def test_a_large_plane_is_cut_and_the_index_says_so() -> None:
    table = answers.tabulate(values(np.zeros((500, 2000), np.float32)))
    assert (table.rows, table.columns) == (100, 1000)
    assert table.index == "[0:100, 0:1000]"


def test_numbers_json_lacks_are_texts() -> None:
    table = answers.tabulate(values(np.array([math.nan, math.inf, -math.inf, -0.0])))
    assert table.values[:3] == ("nan", "inf", "-inf")
    assert answers.tabulate(values(np.array([2**60]))).values == (str(2**60),)
    assert answers.tabulate(values(np.array([True, False]))).values == (1, 0)
    assert answers.tabulate(values(np.array([1 - 2j]))).values == ("1-2j",)


@pytest.mark.parametrize(
    ("index", "part"),
    [
        ("[0, 1", "not an index"),
        ("[..., 0, ...]", "more than once"),
        ("..., 0, 0, 0, 0", "names 4 dimensions"),
        ("[0, 1, 2, 3]", "names 4 dimensions"),
        ("[5, :, :]", "outside"),
        ("[-3, :, :]", "outside"),
        ("[a]", "neither"),
        ("[0,, 1]", "neither"),
        ("[:, :, :]", "more than two"),
        ("[0, ::0, :]", "step of 0"),
        ("[" + "9" * 5000 + "]", "not an index"),
        ("[__import__('os')]", "neither"),
    ],
)
def test_what_is_no_index_is_refused(index: str, part: str) -> None:
    with pytest.raises(UsageError, match=part):
        answers.tabulate(values(np.zeros((2, 3, 4))), index)


@pytest.mark.document(
    236,
    says="A slice of a tensor is typed in",
    how="`[0, :, 3:5]`, `0, :`, `[...]`, `[..., 0]`; on the page and in `sonde ctl`",
)
@pytest.mark.parametrize(
    ("index", "same"),
    [
        ("0, 1", "[0, 1, :]"),
        ("0,:", "[0, :, :]"),
        (" 1, ..., 2 ", "[1, :, 2]"),
        ("[..., 3]", "[:, :, 3]"),
        ("[0, ...]", "[0, :, :]"),
        ("[0, 1, 2, ...]", "[0, 1, 2]"),
        ("...", ""),
        ("[ ... ]", ""),
    ],
)
def test_brackets_may_be_left_out_and_dots_are_whole_dimensions(index: str, same: str) -> None:
    array = values(np.arange(24.0).reshape(2, 3, 4))
    assert answers.tabulate(array, index) == answers.tabulate(array, same)


@given(st.data())
def test_a_plane_is_what_numpy_takes(data: st.DataObject) -> None:
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=3, max_side=5))
    array = np.arange(math.prod(shape)).reshape(shape)
    parts: list[str] = []
    for place, size in enumerate(shape):
        if len(shape) - place > 2 or data.draw(st.booleans()):
            parts.append(str(data.draw(st.integers(-size, size - 1))))
        else:
            first, last = data.draw(st.tuples(st.integers(-7, 7), st.integers(-7, 7)))
            step = data.draw(st.sampled_from([-2, -1, 1, 2]))
            parts.append(f"{first}:{last}:{step}")
    text = f"[{', '.join(parts)}]"
    plane = parse_plane(text, shape)
    expected = eval(f"array{text}", {"array": array}).reshape(-1).tolist()
    assert plane.of(array).reshape(-1).tolist() == expected
    assert parse_plane(plane.index, shape).of(array).reshape(-1).tolist() == expected


def test_a_picture_has_the_mean_of_the_finite_elements_and_marks_the_others() -> None:
    array = np.array([[1.0, 3.0, np.nan, np.inf], [5.0, 7.0, 2.0, -np.inf]])
    heat = answers.draw_heat(values(array), rows=1, columns=2)
    assert heat.cells == (4.0, 2.0)
    assert heat.marks == (0, 1 + 2 + 4)
    assert (heat.low, heat.high) == (2.0, 4.0)
    whole = answers.draw_heat(values(array))
    assert whole.cells[2] is None
    assert (whole.rows, whole.columns) == (2, 4)


def test_the_mean_of_the_largest_numbers_does_not_overflow() -> None:
    array = np.full((4, 4), 1.7e308)
    assert answers.draw_heat(values(array), rows=1, columns=1).cells == pytest.approx((1.7e308,))


@given(
    hnp.arrays(
        np.float64,
        hnp.array_shapes(min_dims=2, max_dims=2, max_side=20),
        elements=st.floats(-1e6, 1e6) | st.sampled_from([math.nan, math.inf, -math.inf]),
    ),
    st.integers(1, 7),
    st.integers(1, 7),
)
def test_every_element_is_in_one_cell(array: NDArray[Any], rows: int, columns: int) -> None:
    heat = answers.draw_heat(values(array), rows=rows, columns=columns)
    height, width = array.shape
    for row in range(heat.rows):
        for column in range(heat.columns):
            block = array[
                height * row // heat.rows : height * (row + 1) // heat.rows,
                width * column // heat.columns : width * (column + 1) // heat.columns,
            ]
            finite = block[np.isfinite(block)]
            cell = heat.cells[row * heat.columns + column]
            if finite.size:
                assert cell == pytest.approx(finite.mean(), rel=1e-9, abs=1e-6)
            else:
                assert cell is None
            mark = heat.marks[row * heat.columns + column]
            assert bool(mark & 1) == np.isnan(block).any()
            assert bool(mark & 2) == (block == np.inf).any()
            assert bool(mark & 4) == (block == -np.inf).any()


@pytest.mark.document(237)
def test_a_histogram_counts_as_numpy_does() -> None:
    array = np.random.default_rng(0).normal(size=10_000).astype(np.float32)
    array[:3] = [np.nan, np.inf, -np.inf]
    summary = answers.summarize(values(array), bins=20)
    assert summary.histogram is not None
    counts, edges = np.histogram(array[3:].astype(np.float64), 20)
    assert summary.histogram.counts == tuple(counts.tolist())
    np.testing.assert_allclose(summary.histogram.edges, edges)
    assert summary.statistics is not None
    assert summary.statistics.nan_count == 1
    assert summary.statistics.max == "nan"


@pytest.mark.parametrize(
    "array",
    [
        np.array([1.7e308, -1.7e308]),
        np.array([1.0, 1.0 + 2**-52]),
        np.array([1e30, 1e30]),
        np.array([5e-324, 0.0]),
        np.array([True, False]),
        np.array([-(2**63), 2**63 - 1]),
        np.array([65504, 1], np.float16),
    ],
)
def test_a_histogram_holds_every_finite_element(array: NDArray[Any]) -> None:
    histogram = answers.summarize(values(array)).histogram
    assert histogram is not None
    assert sum(histogram.counts) == array.size
    assert all(math.isfinite(edge) for edge in histogram.edges)


@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2, max_size=60),
    st.integers(1, 40),
)
@example([1.7976931348623157e308, -1.7976931348623157e308], 3)
def test_the_place_of_an_element_is_that_between_the_edges(numbers: list[float], bins: int) -> None:
    array = np.array(numbers)
    found = answers.summarize(values(array), bins).histogram
    assert found is not None
    if len(found.counts) > 1:
        edges = np.array(found.edges)
        places = np.searchsorted(edges[1:-1], array, "right")
        assert found.counts == tuple(np.bincount(places, minlength=bins).tolist())


@pytest.mark.parametrize("seed", range(3))
def test_elements_on_the_edges_are_counted_as_numpy_does(seed: int) -> None:
    array = np.random.default_rng(seed).integers(-50, 51, 200_000) / 10
    found = answers.summarize(values(array), bins=100).histogram
    assert found is not None
    counts, _ = np.histogram(array, np.array(found.edges))
    assert found.counts == tuple(counts.tolist())


def test_complex_tensors_have_no_statistics_but_values() -> None:
    summary = answers.summarize(values(np.array([1 + 1j])))
    assert summary.statistics is None
    assert summary.histogram is None
    assert answers.draw_heat(values(np.array([3 + 4j]))).cells == (5.0,)


def test_a_comparison_shows_differences_beyond_the_boundary() -> None:
    a = np.array([[1.0, 2.0], [3.0, np.nan]])
    b = np.array([[1.5, 2.0], [13.0, 4.0]])
    compared = answers.compare(values(a), values(b), tolerance=0.06)
    assert compared.boundary == pytest.approx(0.6)
    assert compared.difference.values == (0.0, 0.0, -10.0, "nan")
    assert compared.a.values == (1.0, 2.0, 3.0, "nan")
    assert compared.heat.cells == (0.0, 0.0, -10.0, None)
    assert compared.distances.max_abs_error == 10.0
    assert compared.distances.equal_count == 1
    assert compared.distances.non_finite_disagreed == 1


def test_integers_differ_exactly() -> None:
    a, b = np.array([2**62 + 1]), np.array([2**62])
    assert answers.compare(values(a), values(b)).difference.values == (1,)
    small, large = np.array([0], np.uint8), np.array([255], np.uint8)
    assert answers.compare(values(small), values(large)).difference.values == (-255,)


def test_distances_in_units_of_the_type_the_tensor_had() -> None:
    bits = np.array([0x3F80, 0x3F81], np.uint32) << 16
    one, next_one = bits.view(np.float32)[:1], bits.view(np.float32)[1:]
    a, b = values(one, "bfloat16"), values(next_one, "bfloat16")
    assert answers.compare(a, b).distances.max_ulp == 1
    assert answers.compare(a, values(next_one)).distances.max_ulp == "nan"
    assert answers.compare(values(one), values(next_one)).distances.max_ulp == 65536


def test_complex_tensors_are_compared_by_their_parts() -> None:
    compared = answers.compare(values(np.array([3 + 4j])), values(np.array([0.0])))
    assert compared.difference.values == (5.0,)
    assert compared.distances.max_abs_error == 4.0


def test_tensors_of_different_shapes_are_not_compared() -> None:
    with pytest.raises(UsageError, match="must have the same shape"):
        answers.compare(values(np.zeros(2)), values(np.zeros((1, 2))))


def test_a_file_reads_back_as_the_tensor() -> None:
    array = np.arange(1000, dtype=np.float32).reshape(10, 100)[:, ::2]
    data = b"".join(answers.npy_chunks(values(array), chunk_bytes=77))
    np.testing.assert_array_equal(np.load(io.BytesIO(data)), array)


def test_questions_find_their_answers() -> None:
    tensor = values(np.ones((2, 2), np.float32))
    assert answers.answer(AskSummary(), tensor) == answers.summarize(tensor)
    assert answers.answer(AskTable("[0, :]"), tensor) == answers.tabulate(tensor, "[0, :]")
    assert answers.answer(AskHeat(rows=1), tensor) == answers.draw_heat(tensor, rows=1)
    assert isinstance(answers.answer(AskCompare(NAME), tensor, tensor), Compared)
    with pytest.raises(UsageError, match="second tensor"):
        answers.answer(AskCompare(NAME), tensor)
