"""Reads ``.npz`` files as weights: nothing is unpickled, and sizes are checked before reading."""

from __future__ import annotations

import io
import lzma
import struct
import zipfile
import zlib
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from sonde.compare.weights.checkpoint import Checkpoint, Weight, damaged, is_shape
from sonde.core.dtypes import BY_NAME

_KIND = ".npz file"
_MAX_HEADER = 64 << 10
_MAX_MEMBERS = 1_000_000
# A compressed member may be a thousand times its size on disk; real weights never are.
_FREE_BYTES = 256 << 20
_MAX_RATIO = 100
_ZIP_ERRORS = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error),
    *(NotImplementedError, RuntimeError, EOFError),
)


def read_npz(path: Path) -> Checkpoint:
    """The arrays of ``path``; a CheckpointError names the damaged member."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            if len(members) > _MAX_MEMBERS:
                raise damaged(path, _KIND, f"it has more than {_MAX_MEMBERS} members")
            weights: dict[str, Weight] = {}
            for member in members:
                weight = _weight(path, archive, member)
                if weight.name in weights:
                    raise damaged(path, _KIND, f"{weight.name!r} occurs twice")
                weights[weight.name] = weight
    except _ZIP_ERRORS as error:
        raise damaged(path, _KIND, str(error) or type(error).__name__) from None
    except (OSError, ValueError, OverflowError) as error:
        raise damaged(path, _KIND, f"it cannot be read: {error}") from None
    return Checkpoint(path, "numpy", weights)


def _weight(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Weight:
    if not member.filename.endswith(".npy"):
        raise damaged(path, _KIND, f"{member.filename!r} is not an .npy file")
    with archive.open(member) as stream:
        shape, dtype, offset = _header(path, member, stream.read(_MAX_HEADER + 16))
    if dtype.newbyteorder("=").name not in BY_NAME:
        raise damaged(path, _KIND, f"{member.filename!r} has {dtype}, not plain numbers")
    needed = offset + prod(shape) * dtype.itemsize
    if needed > member.file_size:
        raise damaged(
            path,
            _KIND,
            f"{member.filename!r} has {member.file_size} bytes; {dtype}{list(shape)} needs "
            f"{needed}",
        )
    if member.file_size > max(_FREE_BYTES, _MAX_RATIO * member.compress_size):
        sizes = f"{member.compress_size} to {member.file_size} bytes"
        raise damaged(path, _KIND, f"{member.filename!r} claims to decompress from {sizes}")
    name = member.filename.removesuffix(".npy")
    return Weight(name, dtype.newbyteorder("=").name, shape, partial(_load, path, member))


def _header(
    path: Path, member: zipfile.ZipInfo, data: bytes
) -> tuple[tuple[int, ...], np.dtype[Any], int]:
    stream = io.BytesIO(data)
    try:
        version = npy.read_magic(stream)
        if version[0] == 1:
            found = npy.read_array_header_1_0(stream, _MAX_HEADER)
        elif version[0] == 2:
            found = npy.read_array_header_2_0(stream, _MAX_HEADER)
        else:
            raise ValueError(f".npy version {version[0]} is unknown")
    except Exception as error:  # numpy parses it as Python, which can fail in any way
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise damaged(path, _KIND, f"{member.filename!r}: {reason}") from None
    shape, _, dtype = found
    if not is_shape(shape):
        raise damaged(path, _KIND, f"{member.filename!r}: the shape in the header is invalid")
    return shape, dtype, stream.tell()


def _load(path: Path, member: zipfile.ZipInfo) -> NDArray[Any]:
    try:
        with zipfile.ZipFile(path) as archive, archive.open(member) as stream:
            array = npy.read_array(stream, allow_pickle=False, max_header_size=_MAX_HEADER)
    except (*_ZIP_ERRORS, OSError, ValueError, TypeError, MemoryError) as error:
        raise damaged(path, _KIND, f"{member.filename!r}: {error}") from None
    return array.astype(array.dtype.newbyteorder("="), copy=False)
