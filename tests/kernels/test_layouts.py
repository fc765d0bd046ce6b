"""Tensors with gaps, expanded, permuted, reversed: the same statistics as their copy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.kernels.truth import COUNTS, EXTREMES, SUMS

from sonde import kernels
from sonde.core.statistics import Statistics


def summarize(tensor: torch.Tensor) -> Statistics:
    name = str(tensor.dtype).removeprefix("torch.")
    return kernels.summarize(tensor.data_ptr(), name, tuple(tensor.shape), tensor.stride())


def assert_like_its_copy(tensor: torch.Tensor) -> None:
    found, expected = summarize(tensor), summarize(tensor.contiguous())
    for name in (*COUNTS, *EXTREMES):
        assert getattr(found, name) == getattr(expected, name), name
    for name in SUMS:
        tolerance = 1e-12 * abs(expected.abs_mean if name == "avg" else getattr(expected, name))
        assert abs(getattr(found, name) - getattr(expected, name)) <= tolerance, name


BASE = torch.randn(6, 10, 70, 50, generator=torch.Generator().manual_seed(0))
LAYOUTS = {
    "channels last": BASE.to(memory_format=torch.channels_last),
    "transposed": BASE.transpose(0, 3),
    "permuted": BASE.permute(2, 0, 3, 1),
    "every second row": BASE[:, :, ::2],
    "every third element": BASE[..., ::3],
    "a slice with gaps": BASE[1:4, 3:7, 10:60, 5:45],
    "long runs with gaps": torch.randn(5, 3000)[:, 500:],
    "very long runs with gaps": torch.randn(3, 10_000)[:, :9_001],
    "expanded in front": BASE[0, 0].expand(4, 70, 50),
    "expanded within": BASE[:, :1].expand(6, 9, 70, 50),
    "one number expanded": torch.tensor(2.5).expand(3, 4, 5),
    "a diagonal": BASE[0, 0, :50].diagonal(),
    "overlapping windows": torch.arange(100.0).unfold(0, 10, 3),
    "a column": BASE[0, 0][:, 7],
    "sizes of one": BASE[:, :1, :, :1],
}


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize(
    "dtype",
    [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int16, torch.int64],
    ids=str,
)
def test_a_layout_has_the_statistics_of_its_copy(path: str, name: str, dtype: torch.dtype) -> None:
    tensor = LAYOUTS[name]
    if not dtype.is_floating_point:
        tensor = tensor * 1000
    as_dtype = torch.empty_strided(tensor.shape, tensor.stride(), dtype=dtype)
    if name == "overlapping windows":
        as_dtype = tensor if dtype == torch.float32 else tensor.to(dtype)
    elif 0 in tensor.stride():
        first = tuple(slice(None if step else 1) for step in tensor.stride())
        as_dtype = tensor[first].to(dtype).expand(tensor.shape)
    else:
        as_dtype.copy_(tensor)
    assert_like_its_copy(as_dtype)


def test_a_permuted_dense_tensor_is_read_as_one_run_and_gives_the_very_same_bits(
    path: str,
) -> None:
    assert summarize(BASE.permute(3, 1, 0, 2)) == summarize(BASE)


def test_an_expanded_tensor_of_a_trillion_elements_is_counted_not_read(path: str) -> None:
    if path == "twin":
        pytest.skip("the twin reads every element")
    row = torch.tensor([1.0, -2.0, 0.0, float("nan")])
    found = summarize(row.expand(1_000_000, 1_000_000, 4))
    assert (found.count, found.nan_count, found.zero_count) == (4 * 10**12, 10**12, 10**12)
    finite = summarize(torch.tensor([3.0, -4.0]).expand(10**6, 10**6, 2))
    assert (finite.avg, finite.std, finite.l2norm) == (-0.5, 3.5, 5e6)


def test_reversed_arrays_are_read_from_their_other_end(path: str) -> None:
    values = np.arange(30.0).reshape(5, 6)
    for view in (values[::-1], values[:, ::-1], values[::-2, ::-3], values.T[::-1]):
        assert kernels.summarize_array(view).avg == view.mean()
        assert kernels.summarize_array(view).max == view.max()


def test_non_finite_is_counted_through_gaps_and_expansion(path: str) -> None:
    values = torch.zeros(40, 50)
    values[3, 5] = float("nan")
    values[7, 4] = float("inf")
    code = kernels.dtype_code("float32")
    for view, count in (
        (values, 2),
        (values.T, 2),
        (values[:, ::2], 1),
        (values.expand(3, 40, 50), 6),
        (values[:0], 0),
    ):
        found = kernels.non_finite_strided(view.data_ptr(), code, tuple(view.shape), view.stride())
        assert found == count


@st.composite
def windows(draw: st.DrawFn) -> NDArray[np.float32]:
    """Any view of an array: sliced, stepped, reversed, permuted, expanded."""
    shape = draw(st.lists(st.integers(1, 9), min_size=0, max_size=5))
    array = np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape) - 7
    steps = [draw(st.sampled_from([1, 2, 3, -1, -2])) for _ in shape]
    view = array[
        tuple(
            slice(draw(st.integers(0, size)) if step > 0 else None, None, step)
            for size, step in zip(shape, steps, strict=True)
        )
    ]
    view = view.transpose(draw(st.permutations(range(view.ndim))))
    if draw(st.booleans()):
        view = np.broadcast_to(view, (draw(st.integers(0, 3)), *view.shape))
    return view


@given(windows())
@settings(max_examples=300, deadline=None)
def test_any_view_has_the_statistics_of_its_copy_on_every_path(view: NDArray[np.float32]) -> None:
    before = kernels.current_path()
    try:
        for name in kernels.available_paths():
            kernels.use_path(name)
            found = kernels.summarize_array(view)
            expected = kernels.summarize_array(view.copy())
            for field in (*COUNTS, *EXTREMES):
                mine, theirs = getattr(found, field), getattr(expected, field)
                assert mine == theirs or np.isnan([mine, theirs]).all(), field
            np.testing.assert_allclose(found.l2norm, expected.l2norm, rtol=1e-13)
            np.testing.assert_allclose(found.std, expected.std, rtol=1e-12, equal_nan=True)
            np.testing.assert_allclose(found.avg, expected.avg, rtol=1e-12, equal_nan=True)
    finally:
        kernels.use_path(before)
