"""Every statistic of every dtype and every awkward tensor, on every path, against the truth."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernels import awkward
from tests.kernels.truth import assert_same, true_statistics

from sonde import kernels
from sonde.core.errors import SondeError
from sonde.core.statistics import Statistics

CASES = [
    *((dtype, name) for dtype in awkward.FLOATS for name in awkward.floats(dtype)),
    *((dtype, name) for dtype in awkward.EIGHTHS for name in awkward.eighths(dtype)),
    *((dtype, name) for dtype in awkward.INTEGERS for name in awkward.integers(dtype)),
]


WIDE = (torch.int64, torch.uint64)


def tensors_of(dtype: torch.dtype) -> dict[str, torch.Tensor]:
    if dtype in awkward.FLOATS:
        return awkward.floats(dtype)
    return awkward.eighths(dtype) if dtype in awkward.EIGHTHS else awkward.integers(dtype)


def summarize(tensor: torch.Tensor) -> Statistics:
    return kernels.summarize(
        tensor.data_ptr(), awkward.name_of(tensor.dtype), tuple(tensor.shape), tensor.stride()
    )


@pytest.mark.parametrize(
    ("dtype", "name"), CASES, ids=[f"{awkward.name_of(dtype)}-{name}" for dtype, name in CASES]
)
def test_every_statistic_of_an_awkward_tensor_is_the_true_one(
    dtype: torch.dtype, name: str
) -> None:
    tensor = tensors_of(dtype)[name]
    expected = true_statistics(awkward.exact_values(tensor), rounded=dtype in WIDE)
    before = kernels.current_path()
    try:
        for path in kernels.available_paths():
            kernels.use_path(path)
            assert_same(summarize(tensor), expected)
    finally:
        kernels.use_path(before)


@pytest.mark.parametrize("size", awkward.SIZES)
@pytest.mark.parametrize("dtype", awkward.FLOATS, ids=awkward.name_of)
def test_statistics_are_true_at_every_size_where_the_loops_change(
    path: str, dtype: torch.dtype, size: int
) -> None:
    values = torch.randn(size, generator=torch.Generator().manual_seed(size)).to(dtype)
    wide = values.double().numpy()
    found = summarize(values)
    assert found.count == size
    assert (found.max, found.min) == (wide.max(), wide.min())
    assert found.negative_count == np.count_nonzero(wide < 0)
    assert found.l2norm == pytest.approx(np.linalg.norm(wide), rel=1e-13)
    assert found.std == pytest.approx(wide.std(), rel=1e-12, abs=1e-300)
    assert found.abs_mean == pytest.approx(np.abs(wide).mean(), rel=1e-13)
    assert abs(found.avg - wide.mean()) <= 1e-14 * np.abs(wide).mean()


@pytest.mark.parametrize("place", [0, 1, 31, 32, 63, 4095, 4096, 8191, 8192, 8200])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("dtype", awkward.FLOATS, ids=awkward.name_of)
def test_a_single_non_finite_element_is_found_wherever_it_is(
    path: str, dtype: torch.dtype, value: float, place: int
) -> None:
    values = torch.ones(8201, dtype=dtype)
    values[place] = value
    found = summarize(values)
    assert (found.nan_count, found.positive_inf_count, found.negative_inf_count) == (
        int(math.isnan(value)),
        int(value == math.inf),
        int(value == -math.inf),
    )
    assert (found.finite_max, found.finite_min) == (1.0, 1.0)
    assert found.positive_count == 8200 + (value == math.inf)
    assert (
        kernels.non_finite(values.data_ptr(), kernels.dtype_code(awkward.name_of(dtype)), 8201) == 1
    )


def test_a_nan_makes_max_and_min_nan_but_not_the_finite_ones(path: str) -> None:
    found = kernels.summarize_array(np.array([1.0, math.nan, -3.0, math.inf]))
    assert math.isnan(found.max)
    assert math.isnan(found.min)
    assert (found.finite_max, found.finite_min) == (1.0, -3.0)
    assert math.isnan(found.avg)
    assert math.isnan(found.l2norm)
    assert math.isnan(found.std)


def test_an_infinity_goes_through_sums_and_leaves_no_spread(path: str) -> None:
    found = kernels.summarize_array(np.array([1.0, -math.inf]))
    assert (found.max, found.min) == (1.0, -math.inf)
    assert (found.avg, found.l2norm, found.abs_mean) == (-math.inf, math.inf, math.inf)
    assert math.isnan(found.std)


def test_an_extreme_that_is_zero_has_no_sign(path: str) -> None:
    for dtype in ("float16", "float32", "float64"):
        found = kernels.summarize_array(np.array([-0.0] * 40, dtype))
        assert math.copysign(1, found.max) == math.copysign(1, found.min) == 1
        assert math.copysign(1, found.avg) == 1


def test_an_empty_tensor_has_norm_zero_and_no_extremes(path: str) -> None:
    found = kernels.summarize_array(np.zeros((3, 0, 2), np.float32))
    assert (found.count, found.l2norm) == (0, 0.0)
    for number in (found.max, found.min, found.finite_max, found.avg, found.std, found.abs_mean):
        assert math.isnan(number)
    assert math.isnan(kernels.summarize_array(np.zeros(0, np.int64)).max)


def test_squares_that_overflow_float32_do_not_overflow_the_norm(path: str) -> None:
    found = kernels.summarize_array(np.full(1000, 3e38, np.float32))
    assert found.l2norm == pytest.approx(float(np.float32(3e38)) * math.sqrt(1000), rel=1e-14)


def test_squares_beyond_float64_leave_norm_mean_and_std_correct(path: str) -> None:
    huge = np.array([1e300, 3e300, -2e300] * 1000)
    found = kernels.summarize_array(huge)
    assert found.l2norm == pytest.approx(math.sqrt(14000) * 1e300, rel=1e-14)
    assert found.avg == pytest.approx(2e300 / 3, rel=1e-14)
    assert found.std == pytest.approx(math.sqrt(14 / 3 - 4 / 9) * 1e300, rel=1e-14)
    tiny = kernels.summarize_array(huge * 1e-200 * 1e-200 * 1e-200)
    assert tiny.l2norm == pytest.approx(math.sqrt(14000) * 1e-300, rel=1e-14)
    assert tiny.std == pytest.approx(math.sqrt(14 / 3 - 4 / 9) * 1e-300, rel=1e-14)
    blocks = kernels.summarize_array(np.concatenate([huge, np.full(5000, 1e-300), np.ones(9000)]))
    assert blocks.l2norm == pytest.approx(math.sqrt(14000) * 1e300, rel=1e-14)
    tiny_and_zero = kernels.summarize_array(np.concatenate([np.zeros(5000), np.full(5000, 1e-300)]))
    assert tiny_and_zero.l2norm == pytest.approx(math.sqrt(5000) * 1e-300, rel=1e-14)
    assert tiny_and_zero.std == pytest.approx(0.5e-300, rel=1e-14)


def test_a_mean_of_two_largest_float64_is_not_infinite(path: str) -> None:
    top = np.finfo(np.float64).max
    found = kernels.summarize_array(np.array([top, top]))
    assert (found.avg, found.abs_mean, found.std) == (top, top, 0.0)
    assert found.l2norm == math.inf, "the true norm is beyond float64"


@pytest.mark.parametrize("size", [100, 100_000])
def test_a_small_spread_around_a_large_mean_keeps_its_digits(path: str, size: int) -> None:
    values = 1e8 + np.random.default_rng(1).standard_normal(size)
    exact = values - 1e8  # no rounding: the difference of near numbers
    assert kernels.summarize_array(values).std == pytest.approx(exact.std(), rel=1e-12)


def test_integers_are_exact_beyond_float64(path: str) -> None:
    top = 2**63 - 1
    found = kernels.summarize_array(np.array([top - 1, -(2**63) + 1, 0], np.int64))
    assert (found.max, found.min) == (top - 1, -(2**63) + 1)
    assert (found.finite_max, found.finite_min) == (top - 1, -(2**63) + 1)
    assert kernels.summarize_array(np.array([2**64 - 2, 3], np.uint64)).max == 2**64 - 2


def test_bool_counts_trues_and_is_0_or_1(path: str) -> None:
    values = np.array([True, False, True, True] * 1000)
    found = kernels.summarize_array(values)
    assert (found.max, found.min, found.positive_count, found.zero_count) == (1, 0, 3000, 1000)
    assert (found.avg, found.abs_mean) == (0.75, 0.75)
    assert found.l2norm == pytest.approx(math.sqrt(3000))
    assert found.std == pytest.approx(values.std())


def test_bool_bytes_other_than_0_and_1_are_true(path: str) -> None:
    found = kernels.summarize_array(np.array([0, 1, 2, 255], np.uint8), "bool")
    assert (found.max, found.positive_count, found.avg) == (1, 3, 0.75)


def test_arrays_of_bits_are_read_as_the_dtype_named(path: str) -> None:
    bits = torch.tensor([1.5, -2.0]).bfloat16().view(torch.uint16).numpy()
    assert kernels.summarize_array(bits, "bfloat16").min == -2.0


def test_foreign_byte_order_and_odd_strides_are_read_right(path: str) -> None:
    assert kernels.summarize_array(np.array([1.0, 2.0], ">f4")).max == 2.0
    records = np.zeros(5, np.dtype([("a", "u1"), ("b", "f4")]))
    records["b"] = [1, 2, 3, 4, 5]
    assert kernels.summarize_array(records["b"]).avg == 3.0


def test_unaligned_memory_is_read_right(path: str) -> None:
    block = np.zeros(4 * 5001, np.uint8)
    values = np.random.default_rng(0).standard_normal(5000).astype(np.float32)
    block[1 : 1 + 4 * 5000] = values.view(np.uint8)
    found = kernels.summarize(block.ctypes.data + 1, "float32", (5000,))
    assert found == kernels.summarize_array(values)


@pytest.mark.parametrize("name", ["complex64", "complex128"])
def test_complex_is_refused_with_the_reason(path: str, name: str) -> None:
    with pytest.raises(SondeError, match=r"no order; dump them as tensors \[statistics-dtype\]"):
        kernels.summarize_array(np.zeros(3, name))


def test_types_without_numbers_are_refused(path: str) -> None:
    with pytest.raises(SondeError, match=r"\[statistics-dtype\]"):
        kernels.summarize_array(np.array(["a"]))
    with pytest.raises(SondeError, match=r"qint8 tensors have no statistics"):
        kernels.dtype_code("qint8")
    with pytest.raises(SondeError, match=r"not an element type"):
        kernels.dtype_code("float31")


def assert_right_on_every_path(array: np.ndarray[Any, Any], expected: Statistics) -> None:
    before = kernels.current_path()
    try:
        for name in kernels.available_paths():
            kernels.use_path(name)
            assert_same(kernels.summarize_array(array), expected)
    finally:
        kernels.use_path(before)


@given(st.lists(st.floats(width=32, allow_nan=True, allow_infinity=True), min_size=0, max_size=200))
@settings(max_examples=150, deadline=None)
def test_any_list_of_float32_has_its_true_statistics_on_every_path(values: list[float]) -> None:
    array = np.array(values, np.float32)
    assert_right_on_every_path(array, true_statistics([float(value) for value in array]))


@given(st.lists(st.floats(width=64), min_size=1, max_size=100))
@settings(max_examples=100, deadline=None)
def test_any_list_of_float64_has_its_true_statistics_on_every_path(values: list[float]) -> None:
    array = np.array(values)
    assert_right_on_every_path(array, true_statistics(values))
