"""Numpy views of memory known by its address."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides in elements of a tensor without gaps, last dimension fastest."""
    strides = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def is_contiguous(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether the tensor has no gaps; the stride of a dimension of size 1 does not matter."""
    step = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size != 1 and stride != step:
            return prod(shape) == 0
        step *= size
    return True


def view(
    address: int, storage: str, shape: Sequence[int], strides: Sequence[int] | None = None
) -> NDArray[Any]:
    """The elements at ``address``, not copied; ``strides`` in elements, None for contiguous.

    The caller keeps the memory alive. Strides may be zero, negative or overlap.
    """
    dtype = np.dtype(storage)
    if prod(shape) == 0:
        return np.empty(tuple(shape), dtype)
    strides = contiguous_strides(shape) if strides is None else strides
    reach = [(size - 1) * stride for size, stride in zip(shape, strides, strict=True)]
    lowest = sum(step for step in reach if step < 0) * dtype.itemsize
    highest = sum(step for step in reach if step > 0) * dtype.itemsize
    span = highest - lowest + dtype.itemsize
    block = buffer(address + lowest, span)
    return np.ndarray(
        tuple(shape),
        dtype,
        buffer=block,
        offset=-lowest,
        strides=[stride * dtype.itemsize for stride in strides],
    )


def buffer(address: int, size: int) -> memoryview:
    """``size`` bytes at ``address``, readable and writable."""
    return memoryview((ctypes.c_char * size).from_address(address)).cast("B")


def buffer_address(block: bytearray) -> int:
    """The address of the bytes of ``block``, valid until it is resized or freed."""
    return ctypes.addressof(ctypes.c_char.from_buffer(block))
