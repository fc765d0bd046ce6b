"""Raw asynchronous dumps of Ascend devices: one file per execution of an op, in protobuf.

A file is called ``{op_type}.{op_name}.{task}.{timestamp}``, with the number of the stream before
the timestamp in later versions. It begins with the length of a ``DumpData`` message, a little-
endian number of 8 bytes; the message describes the tensors, whose bytes follow it, inputs first.
In the oldest files the whole file is the message, which has the bytes inside.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from pathlib import Path

from sonde.core.dtypes import BY_NAME, DType
from sonde.core.errors import DumpError
from sonde.core.files.protobuf_wire import BYTES, Field, Message, WireError
from sonde.core.keys import Io
from sonde.dump.bounded_file import open_without_blocking, read_bytes
from sonde.dump.old_formats.device_formats import FORMATS, is_host_format
from sonde.dump.old_formats.stored_tensor import OldTensor, damaged

_NAME = re.compile(r"([^.]+)\.(.+?)\.([0-9]{1,9})\.(?:([0-9]{1,9})\.)?([0-9]{14,18})", re.DOTALL)
_MAX_MESSAGE = 64 << 20
_MAX_INLINE = 1 << 30
_FIRST_BYTES = (b"\x0a", b"\x10", b"\x1a", b"\x22", b"\x32")
"""How a message can begin: with its version, its time, a tensor or the name of its op."""
_MAX_TENSORS = 10_000
_LENGTH_BYTES = 8

# Ascend's numbers of element types; those without a counterpart in numpy are left out.
_DTYPES = {
    1: "float32",
    2: "float16",
    3: "int8",
    4: "uint8",
    5: "int16",
    6: "uint16",
    7: "int32",
    8: "int64",
    9: "uint32",
    10: "uint64",
    11: "bool",
    12: "float64",
    16: "complex64",
    17: "complex128",
    18: "int8",
    19: "int16",
    20: "int32",
    21: "uint8",
    22: "uint16",
    27: "bfloat16",
}

# The fields of DumpData.
_OUTPUT, _INPUT, _OP_NAME = 3, 4, 6
# The fields of OpInput and OpOutput; those after the shape have other numbers.
_DTYPE, _FORMAT, _SHAPE = 1, 2, 3
_FIELDS: dict[Io, tuple[int, int, int]] = {"input": (4, 5, 6), "output": (5, 6, 7)}
"""The numbers of data, size and original shape."""


@dataclass(frozen=True, slots=True)
class RawName:
    """The parts of a file name; ``op_name`` has ``_`` for each slash."""

    op_type: str
    op_name: str
    task: int
    stream: int
    timestamp: int


@dataclass(slots=True)
class _Described:
    """One tensor as the message describes it; ``data`` is where its bytes are inside the file."""

    io: Io
    dtype: int = 0
    format: int = 0
    shape: tuple[int, ...] = ()
    host_shape: tuple[int, ...] = ()
    size: int = 0
    data: tuple[int, int] | None = None


@dataclass(slots=True)
class RawFile:
    """The tensors of a raw file that can be read, and why others cannot."""

    tensors: list[OldTensor] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def parse_raw_name(name: str) -> RawName | None:
    """The parts of the name of a raw file; None for any other name."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    return RawName(match[1], match[2], int(match[3]), int(match[4] or 0), int(match[5]))


def is_raw_file(path: Path) -> bool:
    """Whether the name and the beginning of a file are those of a raw dump."""
    if parse_raw_name(path.name) is None:
        return False
    try:
        read_raw_file(path)
    except DumpError:
        return False
    return True


def read_raw_file(path: Path) -> RawFile:
    """Read the description of all tensors in a file, no values; DumpError if it is damaged."""
    name = parse_raw_name(path.name) or RawName("Op", path.name, 0, 0, 0)
    try:
        size = path.stat().st_size
    except OSError as error:
        raise damaged(path, f"cannot be read: {error.strerror}") from None
    try:
        op_name, described = _read_header(path, size)
    except WireError as error:
        raise damaged(path, f"not a raw dump of Ascend: {error}") from None
    found = RawFile()
    for io in ("input", "output"):
        for slot, each in enumerate(each for each in described if each.io == io):
            dtype = BY_NAME.get(_DTYPES.get(each.dtype, ""))
            reason = _why_unreadable(each, dtype, size)
            if reason or dtype is None or each.data is None:
                found.problems.append(f"{io} {slot}: {reason}")
                continue
            format = FORMATS.get(each.format, f"FORMAT_{each.format}")
            host = each.host_shape or (each.shape if is_host_format(format) else None)
            found.tensors.append(
                OldTensor(
                    path,
                    name.op_type,
                    op_name or name.op_name,
                    io,
                    slot,
                    dtype,
                    format,
                    each.shape,
                    host,
                    each.data[0],
                    name.timestamp,
                )
            )
    return found


def _why_unreadable(each: _Described, dtype: DType | None, size: int) -> str:
    if dtype is None:
        return f"the element type {each.dtype} of Ascend has no counterpart in numpy"
    if each.data is None or each.data[1] > size:
        return "its bytes are not in the file, which ends early"
    stored, wanted = each.data[1] - each.data[0], prod(each.shape) * dtype.itemsize
    if stored < wanted:
        return f"{dtype.name}{list(each.shape)} needs {wanted} bytes, it has {stored}"
    return ""


def _read_header(path: Path, size: int) -> tuple[str, list[_Described]]:
    """The op's name and its tensors, with their places in the file."""
    start = _read(path, 0, _LENGTH_BYTES)
    length = int.from_bytes(start, "little")
    if len(start) == _LENGTH_BYTES and 0 < length <= min(size - _LENGTH_BYTES, _MAX_MESSAGE):
        data = _read(path, _LENGTH_BYTES, length)
        try:
            op_name, described = _decode(data, 0)
        except WireError:
            pass  # It may be one of the oldest files.
        else:
            _place(described, _LENGTH_BYTES + length)
            return op_name, described
    if start[:1] not in _FIRST_BYTES:
        raise WireError("it begins with neither a length nor a message", 0)
    return _decode(read_bytes(path, _MAX_INLINE, slug="old-dump-file"), 0)


def _place(described: list[_Described], offset: int) -> None:
    """The bytes of the tensors follow the message: all inputs, then all outputs."""
    for io in ("input", "output"):
        for each in described:
            if each.io == io:
                each.data = (offset, offset + each.size)
                offset += each.size


def _decode(data: bytes, base: int) -> tuple[str, list[_Described]]:
    op_name = ""
    described: list[_Described] = []
    for each in Message(data, 0, len(data)).fields():
        if each.number in (_OUTPUT, _INPUT):
            io: Io = "output" if each.number == _OUTPUT else "input"
            described.append(_tensor(each.as_message(), io, base))
        elif each.number == _OP_NAME:
            op_name = each.as_text()
        elif each.number > 32:
            raise WireError(f"field {each.number} is not one of a dump", each.stop)
        if len(described) > _MAX_TENSORS:
            raise WireError(f"more than {_MAX_TENSORS} tensors", each.stop)
    if not described:
        raise WireError("it describes no tensor", len(data))
    return op_name, described


def _tensor(message: Message, io: Io, base: int) -> _Described:
    found = _Described(io)
    data, size, host = _FIELDS[io]
    for each in message.fields():
        if each.number == _DTYPE:
            found.dtype = each.as_uint()
        elif each.number == _FORMAT:
            found.format = each.as_uint()
        elif each.number == _SHAPE:
            found.shape = tuple(_sizes(each))
        elif each.number == host:
            found.host_shape = tuple(_sizes(each))
        elif each.number == size:
            found.size = each.as_uint()
        elif each.number == data:
            each.expect(BYTES)
            if each.stop > each.value:
                found.data = (base + each.value, base + each.stop)
    return found


def _sizes(shape: Field) -> Iterator[int]:
    for each in shape.as_message().fields():
        if each.number == 1:
            yield from each.as_uints()


def _read(path: Path, offset: int, length: int) -> bytes:
    try:
        with open(path, "rb", buffering=0, opener=open_without_blocking) as file:
            file.seek(offset)
            return file.read(length)
    except OSError as error:
        raise damaged(path, f"cannot be read: {error.strerror}") from None
