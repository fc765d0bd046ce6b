"""One tensor in a file of an old format."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sonde.core.dtypes import DType
from sonde.core.errors import DumpError
from sonde.core.keys import Io
from sonde.dump.bounded_file import open_without_blocking

_OP_NUMBER = re.compile(r"-op[0-9]+$")


@dataclass(frozen=True, slots=True)
class OldTensor:
    """Where the bytes of a tensor are, and what they mean.

    ``op_name`` is the full name, or has ``_`` for each slash. ``format`` is the layout of the
    values (``NCHW``, ``NC1HWC0``, ...) and ``shape`` their shape in it; ``host_shape`` the shape
    in the network, None if it is not known. ``timestamp`` is 0 where the format has none.
    """

    path: Path
    op_type: str
    op_name: str
    io: Io
    slot: int
    dtype: DType
    format: str
    shape: tuple[int, ...]
    host_shape: tuple[int, ...] | None
    offset: int
    timestamp: int

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * self.dtype.itemsize

    def array(self) -> NDArray[Any]:
        """The values as they are stored, bfloat16 as float32."""
        raw = np.dtype(np.uint16 if self.dtype.name == "bfloat16" else self.dtype.stored)
        try:
            with open(self.path, "rb", opener=open_without_blocking) as file:
                file.seek(self.offset)
                data = file.read(self.nbytes)
        except OSError as error:
            raise damaged(self.path, f"cannot be read: {error.strerror}") from None
        if len(data) < self.nbytes:
            raise damaged(self.path, f"byte {self.offset + len(data)}: the file ends early")
        values = np.frombuffer(data, raw).reshape(self.shape)
        if self.dtype.name == "bfloat16":
            return (values.astype(np.uint32) << np.uint32(16)).view(np.float32)
        return values


def op_type_of(name: str) -> str:
    """``Conv2D`` of ``Default/conv1-Conv2d/Conv2D-op12``; a name without a number of an op is
    that of a parameter."""
    last = name.rpartition("/")[2]
    return _OP_NUMBER.sub("", last) if _OP_NUMBER.search(last) else "Parameter"


def damaged(path: Path, what: str) -> DumpError:
    return DumpError(f"{path}: {what}", slug="old-dump-file")
