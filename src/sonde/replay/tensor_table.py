"""How the manifest describes tensors: which bytes of which file, with which strides.

Strides are kept because kernels sum in another order for other strides, and so is the place of the
first element within 64 bytes of memory. Tensors that share memory share it again when they are
read.
"""

from __future__ import annotations

from math import prod
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from sonde.core.dtypes import BY_NAME
from sonde.replay.layout import TensorFile

ALIGNMENT = 64
Size: TypeAlias = Annotated[int, Meta(ge=0, lt=2**59)]
Sizes: TypeAlias = Annotated[list[Size], Meta(max_length=64)]


class CapturedTensor(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One tensor: ``key`` of ``file`` has its bytes.

    If it is the only tensor of its memory and contiguous, the file has it with this dtype and
    shape. Otherwise the file has the memory as bytes, of which ``offset`` is the first of this
    tensor. ``strides`` is None for the usual ones. ``alignment`` is the address of the first byte
    of the memory modulo 64. ``device`` is where the tensor was.
    """

    file: TensorFile
    key: Annotated[str, Meta(max_length=2000)]
    dtype: str
    shape: Sizes
    strides: Sizes | None = None
    offset: Size = 0
    alignment: Annotated[int, Meta(ge=0, lt=ALIGNMENT)] = 0
    device: Annotated[str, Meta(max_length=100)] = "cpu"
    requires_grad: bool = False
    is_parameter: bool = False

    def needed_bytes(self) -> int:
        """How many bytes of the memory this tensor reaches to."""
        itemsize = BY_NAME[self.dtype].itemsize
        if 0 in self.shape:
            return self.offset
        if self.strides is None:
            return self.offset + prod(self.shape) * itemsize
        last = sum(
            (size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True)
        )
        return self.offset + (last + 1) * itemsize

    def problem(self, available: int) -> str | None:
        """Why this entry is not valid for a file entry of so many bytes; None if it is."""
        if self.dtype not in BY_NAME:
            return f"the element type {self.dtype[:40]!r} is unknown"
        if self.strides is not None and len(self.strides) != len(self.shape):
            return f"it has {len(self.shape)} sizes and {len(self.strides)} strides"
        if self.offset % BY_NAME[self.dtype].itemsize:
            return f"its offset {self.offset} is inside an element"
        if self.needed_bytes() > available:
            return f"it needs {self.needed_bytes()} bytes, the file has {available}"
        return None
