"""Read ``.npy`` files that may be damaged or hostile.

The header is parsed and checked against the size of the file before anything is allocated;
objects are refused, so that nothing is unpickled. Values are read or mapped on demand.
"""

from __future__ import annotations

import ast
import os
import re
import stat
import struct
import threading
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from sonde.core.dtypes import BY_NAME
from sonde.core.errors import DumpError
from sonde.dump.bounded_file import open_without_blocking

_MAGIC = b"\x93NUMPY"
_NUMBER_TYPE = re.compile(r"[<>=|]?[?biufc][0-9]{0,2}")
# Python 3.11 fails with SystemError where two threads parse at once.
_PARSER = threading.Lock()
_MAX_HEADER = 64 << 10
_MAX_DIMENSIONS = 64
_SMALL_BYTES = 4096
# Mapping a small file costs more than reading it, and mappings per process are limited.
_MAP_FROM_BYTES = 1 << 20
# MindSpore writes bfloat16 with a type string numpy does not know; the payload is raw bfloat16.
_BFLOAT16 = frozenset({"<E2", "=E2", "|E2", "E2"})


@dataclass(frozen=True, slots=True)
class NpyHeader:
    """A header that was checked against the size of the file; values begin at ``offset``.

    ``dtype`` is Sonde's name of the element type; ``bfloat16`` only for raw bfloat16 values.
    """

    path: Path
    dtype: str
    shape: tuple[int, ...]
    fortran_order: bool
    storage: np.dtype[Any]
    offset: int
    whole: bytes | None = field(default=None, compare=False, repr=False)
    """The whole file if it is small, else empty."""
    strides: tuple[int, ...] | None = None
    """Elements from one index to the next in each dimension, if the values are not dense."""

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the values as they are stored."""
        return self.size * self.storage.itemsize

    def array(self, shape: tuple[int, ...] | None = None) -> NDArray[Any]:
        """The values, read-only: a large file is mapped, raw bfloat16 becomes float32.

        ``shape`` replaces that of the file where the graph knows it better; of the same size.
        """
        values = self._values() if self.strides is None else self._gathered(self.strides)
        if self.dtype == "bfloat16":
            values = (values.astype(np.uint32) << np.uint32(16)).view(np.float32)
        if not values.dtype.isnative:
            values = values.astype(values.dtype.newbyteorder("="))
        try:
            values = values.reshape(
                self.shape if shape is None else shape, order="F" if self.fortran_order else "C"
            )
        except ValueError as error:
            raise _error(self.path, f"byte 10: {error}") from None
        values.flags.writeable = False
        return values

    def _gathered(self, strides: tuple[int, ...]) -> NDArray[Any]:
        """A dense copy of values that are not."""
        if not self.size:
            return np.zeros(0, self.storage)
        sizes = zip(self.shape, strides, strict=True)
        count = sum((size - 1) * step for size, step in sizes) + 1
        plain = replace(self, shape=(count,), strides=None)._values()
        steps = [step * plain.itemsize for step in strides]
        return np.array(as_strided(plain, self.shape, steps)).reshape(-1)

    def _values(self) -> NDArray[Any]:
        """The values as they are in the file, in one dimension."""
        if self.whole is not None:
            return np.frombuffer(self.whole, self.storage, self.size, self.offset)
        try:
            if self.nbytes < _MAP_FROM_BYTES:
                return np.fromfile(self.path, self.storage, self.size, offset=self.offset)
            mapped = np.memmap(self.path, self.storage, "r", self.offset, (self.size,))
        except (OSError, ValueError) as error:
            raise _error(self.path, f"byte {self.offset}: cannot be read: {error}") from None
        return np.asarray(mapped)


def read_header(path: Path) -> NpyHeader:
    """Parse and check the header; DumpError names the file and the byte of the damage."""
    try:
        with open(path, "rb", buffering=0, opener=open_without_blocking) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise _error(path, "is not a file")
            size = status.st_size
            start = file.read(_SMALL_BYTES)
            offset, length = _header_span(path, start[:12])
            end = offset + length
            if length > _MAX_HEADER or end > size:
                raise _error(path, f"byte 8: a header of {length} bytes in a file of {size}")
            if end > len(start):
                file.seek(0)
                start = file.read(end)
            text = start[offset:end].decode("latin-1")
    except OSError as error:
        raise _error(path, f"cannot be read: {error.strerror}") from None
    whole = start if size == len(start) else None
    try:
        header = NpyHeader(path, *_parse_header(text), end, whole)
    except ValueError as error:
        raise _error(path, f"byte 10: {error}") from None
    if header.offset + header.nbytes > size:
        raise _error(
            path,
            f"byte {size}: the file ends early; {header.dtype}{list(header.shape)} needs "
            f"{header.offset + header.nbytes} bytes",
        )
    return header


def _header_span(path: Path, start: bytes) -> tuple[int, int]:
    if len(start) < 10 or not start.startswith(_MAGIC):
        raise _error(path, "byte 0: not an .npy file")
    major = start[6]
    if major == 1:
        return 10, int(struct.unpack_from("<H", start, 8)[0])
    if major in (2, 3) and len(start) == 12:
        return 12, int(struct.unpack_from("<I", start, 8)[0])
    raise _error(path, f"byte 6: .npy version {major} is not known")


@lru_cache(maxsize=1024)
def _parse_header(text: str) -> tuple[str, tuple[int, ...], bool, np.dtype[Any]]:
    """Type, shape, order and storage; ValueError says what is wrong. Equal headers are common."""
    try:
        with _PARSER:
            header = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        raise ValueError("the header is damaged") from None
    if not isinstance(header, dict) or set(header) != {"descr", "fortran_order", "shape"}:
        raise ValueError("the header lacks descr, fortran_order or shape")
    shape = header["shape"]
    if (
        not isinstance(shape, tuple)
        or len(shape) > _MAX_DIMENSIONS
        or not all(type(size) is int and 0 <= size < 1 << 62 for size in shape)
    ):
        raise ValueError("the shape in the header is not a tuple of sizes")
    descr = header["descr"]
    if isinstance(descr, str) and descr in _BFLOAT16:
        name, storage = "bfloat16", np.dtype(np.uint16)
    else:
        storage = _storage(descr)
        name = storage.newbyteorder("=").name
    return name, shape, header["fortran_order"] is True, storage


def _storage(descr: object) -> np.dtype[Any]:
    """The numpy type of ``descr`` if it is one of plain numbers."""
    if isinstance(descr, str) and _NUMBER_TYPE.fullmatch(descr):
        try:
            storage = np.dtype(descr)
        except (TypeError, ValueError):
            storage = np.dtype(object)
        if storage.newbyteorder("=").name in BY_NAME:
            return storage
    raise ValueError(f"{str(descr)[:40]!r} is not a type of plain numbers")


def _error(path: Path, what: str) -> DumpError:
    return DumpError(f"{path}: {what}", slug="npy-file")
