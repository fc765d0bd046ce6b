"""A tensor as text: exactly as the document shows it, and as numpy would elide it."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sonde.adapters.torch.printing.tensor_text import (
    is_elided,
    shown_indices,
    tensor_text,
    unreadable_text,
)


def test_the_text_is_that_of_the_document() -> None:
    ones = np.ones([2, 1]).astype(np.int32)
    assert tensor_text("int32", [2, 1], ones) == (
        "Tensor(shape=[2, 1], dtype=Int32, value=\n[[1]\n [1]])"
    )


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (np.array(2.5), "Tensor(shape=[], dtype=Float64, value=2.5)"),
        (np.array([1.0, -0.25]), "Tensor(shape=[2], dtype=Float64, value=\n[ 1.   -0.25])"),
        (np.zeros((0, 3)), "Tensor(shape=[0, 3], dtype=Float64, value=\n[])"),
        (np.array([True, False]), "Tensor(shape=[2], dtype=Bool, value=\n[ True False])"),
        (
            np.array([math.nan, math.inf, -math.inf, -0.0]),
            "Tensor(shape=[4], dtype=Float64, value=\n[ nan  inf -inf  -0.])",
        ),
        (np.array([1 + 2j]), "Tensor(shape=[1], dtype=Complex128, value=\n[1.+2.j])"),
    ],
)
def test_awkward_tensors(array: np.ndarray, text: str) -> None:
    assert tensor_text(array.dtype.name, array.shape, array) == text


def test_the_users_print_options_change_nothing() -> None:
    with np.printoptions(precision=2, threshold=1, edgeitems=1, suppress=True):
        text = tensor_text("float64", [3], np.array([1e-9, 1 / 3, 2.0]))
    assert text.endswith("\n[1.00000000e-09 3.33333333e-01 2.00000000e+00])")


@given(st.lists(st.integers(1, 12), min_size=1, max_size=4), st.integers(0, 2**32 - 1))
def test_an_elided_tensor_reads_as_numpy_elides_the_whole(shape: list[int], seed: int) -> None:
    shape[0] *= 120  # most are too large to be written whole
    array = np.random.default_rng(seed).integers(-1000, 1000, shape)
    whole = np.array2string(
        array, threshold=1000 if array.size > 1000 else sys.maxsize, max_line_width=100
    )
    part = array
    if is_elided(shape):
        for axis, size in enumerate(shape):
            part = np.take(part, shown_indices(size), axis)
    assert tensor_text("int64", shape, part) == (
        f"Tensor(shape={shape}, dtype=Int64, value=\n{whole})"
    )


def test_unreadable_values_are_reported() -> None:
    assert unreadable_text("float8_new", [2], "it is far away") == (
        "Tensor(shape=[2], dtype=float8_new, no values: it is far away)"
    )
