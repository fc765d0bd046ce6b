"""MindSpore's ``.ckpt`` files as named numpy arrays, both ways, without MindSpore.

A file is the protobuf message ``Checkpoint { repeated Value value = 1 }`` with
``Value { tag = 1; tensor = 2 { dims = 1 (unpacked); tensor_type = 2; tensor_content = 3 } }``.
What ``encode`` writes equals what MindSpore writes for the same values, byte for byte. A tensor
over 512 MB is split over several values with one tag. Text is UTF-32 with the type ``str``. With
``crc`` 17 bytes follow: ``crc_num`` and the CRC-32 of all before, ten bytes, big-endian.

Files may be damaged or hostile: ``decode`` and ``scan`` check every length against the size of the
file, which also bounds their memory, and damaged bytes raise ``CheckpointError`` with the byte at
which the damaged value begins.
"""

from __future__ import annotations

import binascii
import io
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from sonde.core.dtypes import BY_NAME
from sonde.core.errors import SondeError
from sonde.core.files.protobuf_wire import (
    BYTES,
    VARINT,
    Field,
    Message,
    WireError,
    encode_bytes,
    encode_bytes_head,
    encode_uint,
    read_varint,
)

SLICE_BYTES = 512 * 1024 * 1024
MAX_VALUES = 1_000_000
"""A file with more values than any network has is refused before it fills the memory."""
_MAX_DIMENSIONS = 32
_MAX_PACKED_BYTES = 10 * _MAX_DIMENSIONS
_VALUE = 1  # of Checkpoint
_TAG, _TENSOR, _MAP_TENSOR = 1, 2, 3  # of Value
_DIMS, _TENSOR_TYPE, _CONTENT = 1, 2, 3  # of the tensor
_CRC_MARK = b"crc_num"
_CRC_TRAILER_BYTES = 17
_ENCRYPTED_STARTS = (b"\xd8\x5e\x3a\x7f", b"\xd9\x5e\x3a\x7f")
_BFLOAT16 = "BFloat16"
_TEXT = "str"
_STORAGE: dict[str, np.dtype[Any]] = {
    each.label: np.dtype(each.stored).newbyteorder("<")
    for each in BY_NAME.values()
    if each.stored == each.name and not each.is_complex
}
"""The numpy type of the bits of an element, by MindSpore's name of the element type."""
_LABELS = {dtype: label for label, dtype in _STORAGE.items()}
_STORAGE[_BFLOAT16] = np.dtype("<u2")


class CheckpointError(SondeError):
    """A checkpoint that is missing, damaged, or holds what its format cannot."""


@dataclass(frozen=True, slots=True, eq=False)
class BFloat16Array:
    """bfloat16 values, which numpy lacks, as their 16 bits."""

    bits: NDArray[np.uint16]


CheckpointValue = NDArray[Any] | BFloat16Array | str


def encode(
    values: Mapping[str, CheckpointValue],
    stream: BinaryIO,
    *,
    crc: bool = False,
    slice_bytes: int = SLICE_BYTES,
) -> None:
    """Write ``values`` in their order; arrays are written from their own memory where contiguous.

    Element types MindSpore's format has no name for (complex, float8) raise ``CheckpointError``.
    """
    checksum = 0
    for tag, value in values.items():
        label, dims, content = _content_of(tag, value)
        for start in range(0, max(len(content), 1), slice_bytes):
            part = content[start : start + slice_bytes]
            head = _value_head(tag, label, dims, len(part))
            stream.write(head)
            stream.write(part)
            if crc:
                checksum = binascii.crc32(part, binascii.crc32(head, checksum))
    if crc:
        stream.write(_CRC_MARK + checksum.to_bytes(10, "big"))


def decode(stream: BinaryIO, *, name: str = "checkpoint") -> dict[str, CheckpointValue]:
    """All values of a seekable stream, in file order; arrays own their memory and are writable.

    A checksum is verified when the file has one. ``name`` is what messages call the file.
    """
    size = stream.seek(0, io.SEEK_END)

    def read(start: int, stop: int) -> memoryview:
        stream.seek(start)
        return memoryview(stream.read(stop - start))

    return {entry.tag: entry.value(name) for entry in _entries(_pieces(read, size, name), name)}


def scan(data: memoryview, *, name: str = "checkpoint") -> dict[str, StoredValue]:
    """The values in ``data``, in file order, not copied: for files mapped into memory.

    A checksum is verified, so that a file with one is read once.
    """
    pieces = _pieces(lambda start, stop: data[start:stop], len(data), name)
    return {entry.tag: entry for entry in _entries(pieces, name)}


@dataclass(frozen=True, slots=True)
class StoredValue:
    """One value as it is in the file; ``parts`` are pieces of the caller's memory.

    ``label`` is the element type as MindSpore spells it; it may be unknown to Sonde.
    """

    tag: str
    label: str
    dims: tuple[int, ...]
    parts: tuple[memoryview, ...]

    @property
    def is_text(self) -> bool:
        return self.label == _TEXT

    @property
    def shape(self) -> tuple[int, ...]:
        """``dims``, but () for a scalar as older versions write it."""
        dtype = _STORAGE.get(self.label)
        size = sum(len(part) for part in self.parts)
        is_scalar = self.dims == (0,) and dtype is not None and size == dtype.itemsize
        return () if is_scalar else self.dims

    def value(self, name: str = "checkpoint") -> CheckpointValue:
        """The value with memory of its own; ``name`` is what messages call the file."""
        tag, label, dims, parts = self.tag, self.label, self.shape, self.parts
        content = parts[0] if len(parts) == 1 else memoryview(b"".join(parts))
        if label == _TEXT:
            try:
                return bytes(content).decode("utf-32-le", "surrogatepass").rstrip("\0")
            except UnicodeDecodeError:
                raise _damaged(name, f"{tag!r} is not UTF-32 text") from None
        dtype = _STORAGE.get(label)
        if dtype is None:
            raise CheckpointError(
                f"{name}: {tag!r} has the element type {label!r}, which Sonde does not know",
                slug="checkpoint-dtype",
            )
        # Also with a size of 0: numpy refuses shapes whose other sizes are too large.
        is_countable = (
            len(dims) <= _MAX_DIMENSIONS and math.prod(dim or 1 for dim in dims) < 1 << 59
        )
        if not is_countable or len(content) != math.prod(dims) * dtype.itemsize:
            raise _damaged(
                name, f"{tag!r} has {len(content)} bytes, not those of {label}{list(dims)}"
            )
        if label == "Bool":
            flags: NDArray[np.bool_] = (np.frombuffer(content, np.uint8) != 0).reshape(dims)
            return flags
        array: NDArray[Any] = np.frombuffer(content, dtype).reshape(dims).copy()
        return BFloat16Array(array) if label == _BFLOAT16 else array


def _entries(pieces: Iterable[StoredValue], name: str) -> Iterator[StoredValue]:
    """Pieces of one tag that follow each other, put together."""
    seen: set[str] = set()
    for tag, group in itertools.groupby(pieces, key=lambda piece: piece.tag):
        if tag in seen:
            raise _damaged(name, f"{tag!r} occurs twice")
        if len(seen) == MAX_VALUES:
            raise _damaged(name, f"it has more than {MAX_VALUES} values")
        seen.add(tag)
        same = list(group)
        if len({(piece.label, piece.dims) for piece in same}) > 1:
            raise _damaged(name, f"the parts of {tag!r} disagree about its type or shape")
        yield replace(same[0], parts=tuple(part for piece in same for part in piece.parts))


def _content_of(tag: str, value: CheckpointValue) -> tuple[str, tuple[int, ...], memoryview]:
    if isinstance(value, str):
        # MindSpore stores numpy.array(text), which keeps one empty character for "".
        data = value.encode("utf-32-le", "surrogatepass") or b"\0\0\0\0"
        return _TEXT, (0,), memoryview(data)
    label = _BFLOAT16
    array: NDArray[Any]
    if isinstance(value, BFloat16Array):
        array = value.bits
    else:
        array = value
        found = _LABELS.get(array.dtype.newbyteorder("<"))
        if found is None:
            raise CheckpointError(
                f"{tag}: a MindSpore checkpoint cannot hold {array.dtype}; "
                "save as .safetensors or .pt instead",
                slug="checkpoint-dtype",
            )
        label = found
    little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    return label, array.shape, little.reshape(-1).view(np.uint8).data


def _value_head(tag: str, label: str, dims: tuple[int, ...], content_bytes: int) -> bytes:
    """All bytes of one value up to its content."""
    tensor = b"".join(encode_uint(_DIMS, dim) for dim in dims)
    tensor += encode_bytes(_TENSOR_TYPE, label.encode())
    tensor += encode_bytes_head(_CONTENT, content_bytes)
    value = encode_bytes(_TAG, tag.encode())
    value += encode_bytes_head(_TENSOR, len(tensor) + content_bytes) + tensor
    return encode_bytes_head(_VALUE, len(value) + content_bytes) + value


def _pieces(read: Callable[[int, int], memoryview], size: int, name: str) -> Iterator[StoredValue]:
    """The values of ``size`` bytes that ``read(start, stop)`` gives."""
    checksum = 0
    position = 0
    while position < size:
        head = read(position, min(position + 11, size))
        if position == 0 and bytes(head[:4]) in _ENCRYPTED_STARTS:
            raise CheckpointError(
                f"{name} is encrypted; save it without enc_key to read it here",
                slug="checkpoint-encrypted",
            )
        if size - position == _CRC_TRAILER_BYTES and bytes(head[: len(_CRC_MARK)]) == _CRC_MARK:
            stored = bytes(read(position + len(_CRC_MARK), size))
            if checksum != (int(stored) if stored.isdigit() else int.from_bytes(stored, "big")):
                raise _damaged(name, "its checksum does not fit its content")
            return
        if head[0] != 0x0A:
            raise _damaged(name, f"no value begins at byte {position}")
        try:
            length, start = read_varint(head, 1, len(head))
            if length > size - position - start:
                raise _damaged(name, f"it ends inside the value at byte {position}")
            whole = read(position, position + start + length)
            checksum = binascii.crc32(whole, checksum)
            piece = _parse_value(whole[start:], name)
        except WireError as fault:
            raise _damaged(name, f"the value at byte {position}: {fault.reason}") from None
        yield piece
        position += start + length


def _parse_value(data: memoryview, name: str) -> StoredValue:
    tag: str | None = None
    tensor: Message | None = None
    for field in Message(data, 0, len(data)).fields():
        if field.number == _TAG and field.wire == BYTES:
            tag = _text(field)
        elif field.number == _TENSOR and field.wire == BYTES:
            tensor = field.as_message()
        elif field.number == _MAP_TENSOR:
            raise CheckpointError(
                f"{name}: {tag or 'a value'} is a MapTensor (a hash table), which is not supported",
                slug="checkpoint-map-tensor",
            )
    if tag is None or tensor is None:
        raise WireError("a value has no name or no tensor", 0)
    dims: list[int] = []
    label, content = "", memoryview(b"")
    for field in tensor.fields():
        if field.number == _DIMS and field.wire in (VARINT, BYTES):
            if field.wire == BYTES and field.stop - field.value > _MAX_PACKED_BYTES:
                raise WireError(f"{tag!r} has more than {_MAX_DIMENSIONS} dimensions", field.stop)
            dims.extend(field.as_uints())
            if len(dims) > _MAX_DIMENSIONS:
                raise WireError(f"{tag!r} has more than {_MAX_DIMENSIONS} dimensions", field.stop)
        elif field.number == _TENSOR_TYPE and field.wire == BYTES:
            label = _text(field)
        elif field.number == _CONTENT and field.wire == BYTES:
            content = data[field.value : field.stop]
    return StoredValue(tag, label, tuple(dims), (content,))


def _text(field: Field) -> str:
    try:
        return field.as_bytes().decode()
    except UnicodeDecodeError:
        raise WireError("a name is not UTF-8", field.value) from None


def _damaged(name: str, reason: str) -> CheckpointError:
    return CheckpointError(
        f"{name} is damaged or not a MindSpore checkpoint: {reason}", slug="checkpoint-damaged"
    )
