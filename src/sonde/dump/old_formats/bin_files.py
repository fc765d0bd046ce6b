"""Synchronous dumps by MindSpore 1.0 to 1.2: one ``.bin`` file of plain numbers per tensor.

The name says what the numbers are, as the users of ``numpy.fromfile`` had to write it down:
``Default--fc1-Dense--MatMul-op3_output_0_shape_32_10_Float32_DefaultFormat.bin``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import cast

from sonde.core.dtypes import dtype_named
from sonde.core.errors import SondeError
from sonde.core.keys import Io
from sonde.dump.old_formats.device_formats import is_host_format
from sonde.dump.old_formats.stored_tensor import OldTensor, damaged, op_type_of

_NAME = re.compile(
    r"(.+)_(input|output)_([0-9]{1,9})_shape((?:_[0-9]{1,18}){0,64})_([A-Za-z]+[0-9]*)_(\w+)\.bin",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class BinName:
    """The parts of the name of a ``.bin`` file; ``op_name`` has slashes again."""

    op_name: str
    io: Io
    slot: int
    shape: tuple[int, ...]
    dtype: str
    format: str


def parse_bin_name(name: str) -> BinName | None:
    """The parts of a name; None for any other name."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    shape = tuple(int(size) for size in match[4].split("_") if size)
    op_name = match[1].replace("--", "/")
    return BinName(op_name, cast(Io, match[2]), int(match[3]), shape, match[5], match[6])


def read_bin_file(path: Path) -> OldTensor:
    """The tensor in a file; DumpError if its size is not what its name says."""
    name = parse_bin_name(path.name)
    if name is None:
        raise damaged(path, "its name does not say dtype and shape")
    try:
        dtype = dtype_named(name.dtype)
    except SondeError as error:
        raise damaged(path, error.message) from None
    try:
        status = path.stat()
    except OSError as error:
        raise damaged(path, f"cannot be read: {error.strerror}") from None
    shape = name.shape
    if shape == (0,) and status.st_size == dtype.itemsize:
        shape = ()  # A scalar has the shape 0 in its name.
    if prod(shape) * dtype.itemsize != status.st_size:
        raise damaged(
            path,
            f"has {status.st_size} bytes, but its name says {dtype.label} of shape {list(shape)}, "
            f"which is {prod(shape) * dtype.itemsize}",
        )
    return OldTensor(
        path,
        op_type_of(name.op_name),
        name.op_name,
        name.io,
        name.slot,
        dtype,
        name.format,
        shape,
        shape if is_host_format(name.format) else None,
        0,
        0,
    )
