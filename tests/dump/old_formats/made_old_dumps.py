"""Writes files of old dump formats by hand: names and bytes spelled out."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

ASCEND_TYPES = {
    "float32": 1,
    "float16": 2,
    "int8": 3,
    "uint8": 4,
    "int32": 7,
    "int64": 8,
    "bool": 11,
    "float64": 12,
}
FORMATS = {"NCHW": 0, "ND": 2, "NC1HWC0": 3, "FRACTAL_Z": 4, "FRACTAL_NZ": 29}

Array = NDArray[np.generic]


def write_bin(
    directory: Path,
    op: str,
    io: str,
    slot: int,
    array: Array,
    *,
    format: str = "DefaultFormat",
) -> Path:
    """A tensor as MindSpore 1.1 wrote it: plain bytes; the name says what they are."""
    shape = "".join(f"_{size}" for size in array.shape) or "_0"
    label = {"float32": "Float32", "float16": "Float16", "int32": "Int32", "bool": "Bool"}
    name = f"{op.replace('/', '--')}_{io}_{slot}_shape{shape}_{label[array.dtype.name]}_{format}"
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{name}.bin"
    array.tofile(path)
    return path


def varint(number: int) -> bytes:
    out = b""
    while number > 0x7F:
        out += bytes((number & 0x7F | 0x80,))
        number >>= 7
    return out + bytes((number,))


def number_field(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value)


def bytes_field(number: int, value: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(value)) + value


def shape_field(number: int, sizes: Sequence[int]) -> bytes:
    return bytes_field(number, bytes_field(1, b"".join(map(varint, sizes))))


def tensor_message(
    io: str,
    array: Array,
    *,
    format: str = "ND",
    original: Sequence[int] = (),
    inline: bool = False,
    dtype: int | None = None,
) -> bytes:
    """An OpInput or OpOutput; ``inline`` puts the bytes into it, as the oldest files do."""
    data, size, host = (4, 5, 6) if io == "input" else (5, 6, 7)
    out = number_field(1, ASCEND_TYPES[array.dtype.name] if dtype is None else dtype)
    out += number_field(2, FORMATS[format]) + shape_field(3, array.shape)
    if inline:
        out += bytes_field(data, array.tobytes())
    out += number_field(size, array.nbytes)
    return out + (shape_field(host, original) if original else b"")


def raw_bytes(
    inputs: Sequence[tuple[Array, bytes]],
    outputs: Sequence[tuple[Array, bytes]],
    *,
    op_name: str = "",
    inline: bool = False,
) -> bytes:
    """A raw file: tensors and their messages, the values after the message unless ``inline``."""
    message = bytes_field(1, b"2.0") + number_field(2, 1_612_439_563_338_020)
    message += b"".join(bytes_field(3, described) for _, described in outputs)
    message += b"".join(bytes_field(4, described) for _, described in inputs)
    if op_name:
        message += bytes_field(6, op_name.encode())
    if inline:
        return message
    values = b"".join(array.tobytes() for array, _ in (*inputs, *outputs))
    return struct.pack("<Q", len(message)) + message + values


def nc1hwc0(array: Array, c0: int = 16) -> Array:
    """An NCHW tensor in the layout of the device, by a loop over its channels."""
    n, c, h, w = array.shape
    c1 = -(-c // c0)
    out = np.zeros((n, c1, h, w, c0), array.dtype)
    for channel in range(c):
        out[:, channel // c0, :, :, channel % c0] = array[:, channel]
    return out


def fractal_nz(array: Array, block: int = 16) -> Array:
    """A matrix in blocks, by a loop over its elements."""
    m, n = array.shape
    out = np.zeros((-(-n // block), -(-m // block), block, block), array.dtype)
    for row in range(m):
        for column in range(n):
            out[column // block, row // block, row % block, column % block] = array[row, column]
    return out


def fractal_z(array: Array, block: int = 16) -> Array:
    """A filter (NCHW) in blocks, by a loop over its elements."""
    n, c, h, w = array.shape
    c1, n1 = -(-c // block), -(-n // block)
    out = np.zeros((c1 * h * w, n1, block, block), array.dtype)
    for index in np.ndindex(n, c, h, w):
        k, channel, y, x = index
        row = ((channel // block) * h + y) * w + x
        out[row, k // block, k % block, channel % block] = array[index]
    return out
