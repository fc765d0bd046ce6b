"""Distances between two tensors: against numpy and scipy, by hand, and as properties."""

from __future__ import annotations

import math
from dataclasses import asdict

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.spatial.distance import cosine

from sonde import kernels
from sonde.core.errors import SondeError
from sonde.kernels.distances import Distances

GENERATOR = np.random.default_rng(5)


def noisy(dtype: str, size: int = 5000) -> tuple[NDArray[np.generic], NDArray[np.generic]]:
    b = GENERATOR.standard_normal(size)
    a = b * (1 + 2e-3 * GENERATOR.standard_normal(size))
    return a.astype(dtype), b.astype(dtype)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("size", [1, 3, 4, 1023, 1024, 1025, 5000])
def test_distances_are_those_of_numpy_and_scipy(path: str, dtype: str, size: int) -> None:
    a, b = noisy(dtype, size)
    found = kernels.compare_arrays(a, b)
    x, y = a.astype(float), b.astype(float)
    error = np.abs(x - y)
    share = error / np.maximum(np.maximum(np.abs(x), np.abs(y)), 1e-300)
    assert found.count == found.finite_count == size
    assert found.max_abs_error == error.max()
    assert found.mean_abs_error == pytest.approx(error.mean(), rel=1e-12)
    assert found.max_relative_error == pytest.approx(share.max(), rel=1e-15)
    assert found.mean_relative_error == pytest.approx(share.mean(), rel=1e-12)
    assert found.within_1 == np.count_nonzero(share <= 0.001)
    assert found.within_5 == np.count_nonzero(share <= 0.005)
    assert found.equal_count == np.count_nonzero(x == y)
    assert found.cosine == pytest.approx(1 - cosine(x, y), abs=1e-14)
    assert found.l2_error == pytest.approx(np.linalg.norm(x - y), rel=1e-12, abs=0)
    assert found.relative_l2 == pytest.approx(np.linalg.norm(x - y) / np.linalg.norm(y), rel=1e-12)
    assert found.norm_a == pytest.approx(np.linalg.norm(x), rel=1e-13)
    assert found.norm_b == pytest.approx(np.linalg.norm(y), rel=1e-13)


def test_distances_worked_by_hand(path: str) -> None:
    a = np.array([3.0, 0.0, 1.001, 2.0], np.float64)
    b = np.array([1.0, 0.0, 1.0, 2.0], np.float64)
    found = kernels.compare_arrays(a, b)
    assert found.max_abs_error == 2.0
    assert found.mean_abs_error == pytest.approx(2.001 / 4)
    assert found.max_relative_error == pytest.approx(2 / 3)
    assert (found.equal_count, found.within_1, found.within_5) == (2, 3, 3)
    assert found.norm_b == pytest.approx(math.sqrt(6))


def test_equal_tensors_have_no_distance(path: str) -> None:
    a, _ = noisy("float32")
    found = kernels.compare_arrays(a, a.copy())
    assert found.is_equal
    assert found.equal_count == found.within_1 == found.within_5 == a.size
    assert (found.max_abs_error, found.max_relative_error, found.relative_l2) == (0.0, 0.0, 0.0)
    assert (found.cosine, found.max_ulp, found.l2_error) == (1.0, 0.0, 0.0)


def test_opposite_tensors_point_the_other_way(path: str) -> None:
    a, _ = noisy("float32")
    found = kernels.compare_arrays(a, -a)
    assert found.cosine == pytest.approx(-1.0, abs=1e-15)
    assert (found.max_relative_error, found.relative_l2) == (2.0, pytest.approx(2.0))


def test_zeros_have_a_direction_only_among_themselves(path: str) -> None:
    zeros, ones = np.zeros(10, np.float32), np.ones(10, np.float32)
    both = kernels.compare_arrays(zeros, -zeros)
    assert (both.cosine, both.relative_l2, both.max_ulp, both.is_equal) == (1.0, 0.0, 0.0, True)
    one = kernels.compare_arrays(ones, zeros)
    assert (one.cosine, one.relative_l2, one.max_relative_error) == (0.0, math.inf, 1.0)
    other = kernels.compare_arrays(zeros, ones)
    assert (other.cosine, other.relative_l2) == (0.0, 1.0)


def test_nan_and_inf_agree_or_not_and_stay_out_of_the_errors(path: str) -> None:
    a = np.array([math.nan, math.inf, -math.inf, math.inf, math.nan, 1.0, 2.0])
    b = np.array([math.nan, math.inf, math.inf, 5.0, math.inf, 1.5, 2.0])
    found = kernels.compare_arrays(a, b)
    assert (found.count, found.finite_count) == (7, 2)
    assert (found.nan_agreed, found.inf_agreed, found.non_finite_disagreed) == (1, 1, 3)
    assert (found.max_abs_error, found.equal_count) == (0.5, 1)
    assert not found.is_equal
    assert kernels.compare_arrays(a, a).is_equal


def test_without_a_finite_pair_there_are_counts_only(path: str) -> None:
    for a in (np.zeros(0), np.full(3, math.nan)):
        found = kernels.compare_arrays(a, a)
        assert found.finite_count == 0
        assert math.isnan(found.max_abs_error)
        assert math.isnan(found.cosine)
        assert math.isnan(found.max_ulp)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_ulp_distance_counts_representable_numbers(path: str, dtype: type) -> None:
    one = np.array([1.0] * 9, dtype)
    near = one.copy()
    for _ in range(3):
        near = np.nextafter(near, dtype(2))
    assert kernels.compare_arrays(near, one).max_ulp == 3
    tiny = np.nextafter(dtype(0), dtype(1))
    assert kernels.compare_arrays(np.array([tiny]), np.array([-tiny])).max_ulp == 2
    assert kernels.compare_arrays(np.array([dtype(0)]), np.array([-tiny])).max_ulp == 1
    top = np.array([np.finfo(dtype).max, math.inf], dtype)
    found = kernels.compare_arrays(top, -top)
    bits = {2: 0x7BFF, 4: 0x7F7FFFFF, 8: 0x7FEFFFFFFFFFFFFF}[top.itemsize]
    assert found.max_ulp == float(2 * bits), "infinities are left out"


@pytest.mark.parametrize(
    ("name", "distance"),
    [("bfloat16", 5.0), ("float8_e4m3fn", 5.0), ("float8_e5m2", 5.0), ("float8_e8m0fnu", 5.0)],
)
def test_ulp_distance_of_low_precision_is_that_of_its_bits(
    path: str, name: str, distance: float
) -> None:
    a = np.array([20, 40, 60], np.uint16 if name == "bfloat16" else np.uint8)
    assert kernels.compare_arrays(a + a.dtype.type(5), a, name, name).max_ulp == distance


def test_ulp_distance_needs_the_same_floating_dtype(path: str) -> None:
    a = np.ones(5, np.float32)
    assert math.isnan(kernels.compare_arrays(a, a.astype(np.float64)).max_ulp)
    assert math.isnan(kernels.compare_arrays(a.astype(int), a.astype(int)).max_ulp)


def test_different_dtypes_are_compared_as_their_values(path: str) -> None:
    wide = torch.randn(3000, generator=torch.Generator().manual_seed(2))
    narrow = wide.bfloat16()
    found = kernels.compare(
        narrow.data_ptr(), "bfloat16", wide.data_ptr(), "float32", tuple(wide.shape)
    )
    error = (narrow.double() - wide.double()).abs()
    assert found.max_abs_error == float(error.max())
    assert found.mean_abs_error == pytest.approx(float(error.mean()), rel=1e-12)
    assert found.max_relative_error <= 2**-8


@pytest.mark.parametrize("factor", [1e300, 1e-300])
def test_squares_beyond_float64_leave_cosine_and_norm_correct(path: str, factor: float) -> None:
    a, b = noisy("float64", 2000)
    plain = kernels.compare_arrays(a, b)
    found = kernels.compare_arrays(a * factor, b * factor)
    assert found.cosine == pytest.approx(plain.cosine, rel=1e-12)
    assert found.relative_l2 == pytest.approx(plain.relative_l2, rel=1e-9)
    assert found.norm_a == pytest.approx(plain.norm_a * factor, rel=1e-12)
    assert found.within_1 == plain.within_1


def test_a_distance_beyond_float64_is_infinite_but_its_share_is_not(path: str) -> None:
    top = np.full(3, np.finfo(np.float64).max)
    found = kernels.compare_arrays(top, -top)
    assert (found.max_abs_error, found.max_relative_error) == (math.inf, 2.0)
    assert found.cosine == pytest.approx(-1.0)


VIEWS = {
    "channels last against contiguous": lambda t: (
        t.to(memory_format=torch.channels_last),
        t * 1.001,
    ),
    "transposed": lambda t: (t.transpose(0, 3), (t * 1.001).transpose(0, 3).contiguous()),
    "expanded on one side": lambda t: (t[:, :1].expand(4, 5, 6, 7), t * 1.001),
    "expanded on both sides": lambda t: (
        t[:, :1].expand(4, 5, 6, 7),
        (t[:, :1] * 1.001).expand(4, 5, 6, 7),
    ),
    "gaps": lambda t: (t[..., ::2], (t * 1.001)[..., ::2].clone()),
    "0-d": lambda t: (t[0, 0, 0, 0], t[0, 0, 0, 1]),
}


@pytest.mark.parametrize("view", VIEWS)
def test_any_layouts_have_the_distances_of_their_copies(path: str, view: str) -> None:
    a, b = VIEWS[view](torch.randn(4, 5, 6, 7, generator=torch.Generator().manual_seed(4)))
    found = kernels.compare(
        a.data_ptr(), "float32", b.data_ptr(), "float32", tuple(a.shape), a.stride(), b.stride()
    )
    expected = kernels.compare_arrays(a.contiguous().numpy(), b.contiguous().numpy())
    for name, value in asdict(expected).items():
        assert getattr(found, name) == pytest.approx(value, rel=1e-12), name


def test_reversed_arrays_are_paired_by_index(path: str) -> None:
    a = np.arange(24.0).reshape(4, 6)
    assert kernels.compare_arrays(a[::-1, ::-2], a[::-1, ::-2].copy()).is_equal
    assert kernels.compare_arrays(a.T[::-1].copy(), a.T[::-1]).is_equal


def test_threads_change_no_bit() -> None:
    a, b = noisy("float32", 3_000_000)
    found = []
    for limit in (1, 3):
        kernels.thread_limit(limit)
        found.append(kernels.compare_arrays(a, b))
    kernels.thread_limit(1)
    assert found[0] == found[1]


def test_all_native_paths_give_the_same_bits() -> None:
    a, b = noisy("float64", 7777)
    before = kernels.current_path()
    found: set[Distances] = set()
    for name in kernels.available_paths():
        kernels.use_path(name)
        if name != "twin":
            found.add(kernels.compare_arrays(a, b))
    kernels.use_path(before)
    assert len(found) == 1


def test_tensors_that_cannot_be_compared_are_refused(path: str) -> None:
    with pytest.raises(ValueError, match=r"shapes \(2,\) and \(3,\) cannot be compared"):
        kernels.compare_arrays(np.zeros(2), np.zeros(3))
    with pytest.raises(SondeError, match="complex numbers have no order"):
        kernels.compare_arrays(np.zeros(2, complex), np.zeros(2, complex))
    with pytest.raises(ValueError, match="18 numbers"):
        kernels.distances_from_row([1.0])


pairs = st.lists(st.tuples(st.floats(width=32), st.floats(width=32)), min_size=1, max_size=60)


@given(pairs)
@settings(max_examples=200, deadline=None)
def test_distances_are_symmetric_where_they_should_be(values: list[tuple[float, float]]) -> None:
    a, b = (np.array(side, np.float32) for side in zip(*values, strict=True))
    before = kernels.current_path()
    try:
        for name in kernels.available_paths():
            kernels.use_path(name)
            one, other = kernels.compare_arrays(a, b), kernels.compare_arrays(b, a)
            for field in asdict(one):
                if field in ("relative_l2", "norm_a", "norm_b"):
                    continue
                mine, theirs = getattr(one, field), getattr(other, field)
                assert mine == theirs or (math.isnan(mine) and math.isnan(theirs)), field
            mine, theirs = one.norm_a, other.norm_b
            assert mine == theirs or (math.isnan(mine) and math.isnan(theirs))
    finally:
        kernels.use_path(before)


@given(pairs)
@settings(max_examples=200, deadline=None)
def test_numpy_agrees_exactly_in_counts_and_extremes(values: list[tuple[float, float]]) -> None:
    a, b = (np.array(side, np.float32) for side in zip(*values, strict=True))
    before = kernels.current_path()
    try:
        kernels.use_path("twin")
        expected = asdict(kernels.compare_arrays(a, b))
        for name in kernels.available_paths():
            kernels.use_path(name)
            found = asdict(kernels.compare_arrays(a, b))
            for field, value in expected.items():
                if field.startswith(("mean", "cosine", "relative", "l2", "norm")):
                    np.testing.assert_allclose(found[field], value, rtol=1e-12, atol=1e-15)
                else:
                    mine = found[field]
                    assert mine == value or (math.isnan(mine) and math.isnan(value)), field
    finally:
        kernels.use_path(before)
