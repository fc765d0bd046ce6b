"""Counts within bounds and changes since the last step, against numpy, on every path."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernels.awkward import EIGHTHS, FLOATS, INTEGERS, SIZES, floats, name_of

from sonde import kernels
from sonde.kernels import dtype_code


def between(tensor: torch.Tensor, low: float, high: float) -> int:
    return kernels.count_between(
        tensor.data_ptr(),
        dtype_code(name_of(tensor.dtype)),
        tuple(tensor.shape),
        tensor.stride(),
        low,
        high,
    )


def change(now: torch.Tensor, before: torch.Tensor, rtol: float, atol: float) -> tuple[float, int]:
    return kernels.tally_change(
        now.data_ptr(),
        dtype_code(name_of(now.dtype)),
        now.stride(),
        before.data_ptr(),
        dtype_code(name_of(before.dtype)),
        before.stride(),
        tuple(now.shape),
        rtol,
        atol,
    )


@pytest.mark.parametrize("dtype", FLOATS, ids=name_of)
def test_elements_between_bounds_are_counted_in_every_awkward_tensor(
    path: str, dtype: torch.dtype
) -> None:
    for name, tensor in floats(dtype).items():
        wide = tensor.double().numpy()
        for low, high in ((-1.0, 0.0), (-math.inf, math.inf), (0.1, 0.7), (5.0, -5.0), (0.0, 0.0)):
            expected = np.count_nonzero((wide >= low) & (wide <= high))
            assert between(tensor, low, high) == expected, (name, low, high)


@pytest.mark.parametrize("dtype", [*INTEGERS, torch.bool, *EIGHTHS], ids=name_of)
@pytest.mark.parametrize("size", SIZES[-6:])
def test_bounds_hold_for_integers_and_eight_bit_floats(
    path: str, dtype: torch.dtype, size: int
) -> None:
    bits = torch.randint(0, 256, (size * 8,), generator=torch.Generator().manual_seed(size))
    raw = bits.to(torch.uint8)
    tensor = (raw % 2).bool()[:size] if dtype == torch.bool else raw.view(dtype)[:size].clone()
    wide = tensor.to(torch.float32).double().numpy() if dtype in EIGHTHS else tensor.numpy()
    expected = np.count_nonzero((wide.astype(float) >= -3) & (wide.astype(float) <= 100))
    assert between(tensor, -3, 100) == expected


def test_a_bound_that_float32_cannot_hold_is_not_rounded(path: str) -> None:
    tensor = torch.tensor([0.1], dtype=torch.float32)  # slightly above the double 0.1
    assert between(tensor, 0.1, 1.0) == 1
    assert between(tensor, -1.0, 0.1) == 0
    assert between(torch.tensor([3.4e38]), 3.4e38, 1e300) == int(
        float(np.float32(3.4e38)) >= 3.4e38
    )


def test_the_layout_of_a_tensor_does_not_matter_to_its_count(path: str) -> None:
    tensor = torch.arange(60.0).reshape(5, 12)[:, ::2].t()
    assert between(tensor, 10, 20) == 6
    assert between(torch.tensor([1.5]).expand(1000, 3), 1, 2) == 3000


@pytest.mark.parametrize("dtype", FLOATS, ids=name_of)
@pytest.mark.parametrize("size", SIZES)
def test_a_change_is_summed_and_judged_as_numpy_does(
    path: str, dtype: torch.dtype, size: int
) -> None:
    generator = torch.Generator().manual_seed(size)
    before = torch.randn(size, generator=generator, dtype=torch.float64)
    now = before + 1e-5 * torch.randn(size, generator=generator, dtype=torch.float64) * before
    now, before = now.to(dtype), before.to(dtype)
    x, p = now.double().numpy(), before.double().numpy()
    total, apart = change(now, before, 1e-5, 1e-8)
    assert total == pytest.approx(np.abs(x - p).sum(), rel=1e-12)
    assert apart == np.count_nonzero(~(np.abs(x - p) <= 1e-8 + 1e-5 * np.abs(p)))


def test_an_unchanged_tensor_has_not_moved_and_a_nan_has(path: str) -> None:
    tensor = torch.randn(1000)
    assert change(tensor, tensor.clone(), 0.0, 0.0) == (0.0, 0)
    with_nan = tensor.clone()
    with_nan[[3, 999]] = math.nan
    total, apart = change(with_nan, tensor, 1.0, 1.0)
    assert math.isnan(total)
    assert apart == 2


@given(
    st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=40),
    st.floats(0, 10),
    st.floats(0, 10),
)
@settings(max_examples=60, deadline=None)
def test_wider_tolerances_never_find_more_movement(
    values: list[float], rtol: float, atol: float
) -> None:
    now = torch.tensor(values, dtype=torch.float64)
    before = now.roll(1)
    assert change(now, before, rtol * 2, atol * 2)[1] <= change(now, before, rtol, atol)[1]
