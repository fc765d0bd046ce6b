"""Hashes follow the logical contents, whatever the memory layout."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
import torch
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from sonde import kernels
from sonde.core.errors import SondeError


def strides_of(array: np.ndarray) -> tuple[int, ...]:
    return tuple(stride // array.itemsize for stride in array.strides)


VIEWS = {
    "contiguous": lambda a: a,
    "transposed": lambda a: a.T,
    "stepped": lambda a: a[::2, ::3],
    "reversed": lambda a: a[::-1, ::-1],
    "broadcast": lambda a: np.broadcast_to(a, (3, *a.shape)),
    "empty": lambda a: a[:0],
    "one": lambda a: a[:1, :1],
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("dtype", ["bool", "int8", "float16", "float32", "int64", "complex128"])
def test_a_hash_is_that_of_the_bytes_in_logical_order(path: str, view: str, dtype: str) -> None:
    array = VIEWS[view]((np.arange(60) * 37 % 101).reshape(6, 10).astype(dtype))
    arguments = (array.ctypes.data, dtype, array.shape, strides_of(array))
    assert kernels.hash_tensor("md5", *arguments) == hashlib.md5(array.tobytes()).hexdigest()
    assert kernels.hash_tensor("xxh3", *arguments) == xxhash.xxh3_128_hexdigest(array.tobytes())


def test_a_large_tensor_with_gaps_is_hashed_in_pieces(path: str) -> None:
    array = np.arange(3_000_000, dtype=np.float32).reshape(1500, 2000)[:, ::2].T
    found = kernels.hash_tensor(
        "xxh3", array.ctypes.data, "float32", array.shape, strides_of(array)
    )
    assert found == xxhash.xxh3_128_hexdigest(array.tobytes())


def test_channels_last_has_the_hash_of_its_contiguous_copy(path: str) -> None:
    tensor = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    copy = tensor.contiguous()
    assert kernels.hash_tensor(
        "md5", tensor.data_ptr(), "float32", tuple(tensor.shape), tensor.stride()
    ) == kernels.hash_tensor("md5", copy.data_ptr(), "float32", tuple(copy.shape))


def test_negative_zero_and_zero_have_different_hashes(path: str) -> None:
    one, other = np.array([0.0]), np.array([-0.0])
    assert kernels.hash_tensor("xxh3", one.ctypes.data, "float64", (1,)) != kernels.hash_tensor(
        "xxh3", other.ctypes.data, "float64", (1,)
    )


def test_an_unknown_hash_is_refused() -> None:
    with pytest.raises(SondeError, match=r"'sha1' is not a hash; choose md5 or xxh3"):
        kernels.hash_tensor("sha1", 0, "float32", (0,))


@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=4),
    st.sampled_from(["uint8", "int16", "float32", "float64"]),
    st.data(),
)
@settings(max_examples=100, deadline=None)
def test_any_permutation_is_hashed_in_its_own_logical_order(
    shape: list[int], dtype: str, data: st.DataObject
) -> None:
    array = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    array = array.transpose(data.draw(st.permutations(range(array.ndim))))
    before = kernels.current_path()
    try:
        for name in kernels.available_paths():
            kernels.use_path(name)
            found = kernels.hash_tensor(
                "md5", array.ctypes.data, dtype, array.shape, strides_of(array)
            )
            assert found == hashlib.md5(array.tobytes()).hexdigest()
    finally:
        kernels.use_path(before)
