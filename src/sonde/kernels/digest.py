"""Hashes of a tensor's logical contents: the same whatever its memory layout.

The hash is over the bytes of the elements in the order of the logical shape, last dimension
fastest, each element little-endian; dtype and shape are not part of it. For a numpy array that is
the hash of ``array.tobytes()``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from math import prod
from typing import Protocol

import xxhash

from sonde.core.dtypes import dtype_named
from sonde.core.errors import SondeError
from sonde.core.statistics import HASHES
from sonde.kernels import memory

_CHUNK_BYTES = 1 << 20

CopyRange = Callable[
    [int, int, int, Sequence[int], "Sequence[int] | None", int, int],
    None,
]


class _Hash(Protocol):
    def update(self, data: memoryview, /) -> object: ...
    def hexdigest(self) -> str: ...


def _hasher(name: str) -> _Hash:
    if name == "md5":
        return hashlib.md5(usedforsecurity=False)
    if name == "xxh3":
        return xxhash.xxh3_128()
    raise SondeError(
        f"{name!r} is not a hash; choose {' or '.join(HASHES)}", slug="statistics-hash"
    )


def digest(
    name: str,
    address: int,
    dtype: str,
    shape: Sequence[int],
    strides: Sequence[int] | None,
    copy_range: CopyRange,
) -> str:
    """The hash called ``name`` in hexadecimal, of the tensor at ``address``.

    A tensor with gaps is gathered a megabyte at a time.
    """
    hasher = _hasher(name)
    itemsize = dtype_named(dtype).itemsize
    count = prod(shape)
    if strides is None or memory.is_contiguous(shape, strides):
        if count:
            hasher.update(memory.buffer(address, count * itemsize))
        return hasher.hexdigest()
    step = _CHUNK_BYTES // itemsize
    block = bytearray(min(count, step) * itemsize)
    target = memory.buffer_address(block)
    for begin in range(0, count, step):
        end = min(count, begin + step)
        copy_range(target, address, itemsize, shape, strides, begin, end)
        hasher.update(memoryview(block)[: (end - begin) * itemsize])
    return hasher.hexdigest()
