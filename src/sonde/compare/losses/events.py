"""Reads loss curves from TensorBoard's event files, without TensorBoard.

A file is a sequence of records: length (8 bytes), its checksum, the event, its checksum. A file
that ends inside a record was still being written: the record is ignored. A wrong checksum is an
error with its position.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from sonde.compare.losses.compare import LossSeries
from sonde.compare.losses.text import LossFileError, choose_name, curve
from sonde.core.files.protobuf_wire import BYTES, FIXED32, VARINT, Message, WireError

EVENT_MARK = "tfevents"
_PREFERRED = ("loss", "train/loss", "Loss/train", "train_loss", "training_loss", "loss/train")
_MAX_CHECKED = 1 << 16
_MAX_TAGS = 100_000
_FLOAT, _DOUBLE = 1, 2


def event_files(directory: Path) -> list[Path]:
    """The event files in a directory, oldest first."""
    return sorted(
        path for path in directory.iterdir() if EVENT_MARK in path.name and path.is_file()
    )


def read_events(origin: Path, files: list[Path], tag: str | None) -> LossSeries:
    """The scalar ``tag``, or the one that is most likely the loss, from all files together."""
    scalars: dict[str, list[tuple[int | None, float]]] = {}
    for path in files:
        for name, step, value in _scalars(path):
            if name not in scalars and len(scalars) >= _MAX_TAGS:
                raise _error(path, 0, f"more than {_MAX_TAGS} tags")
            scalars.setdefault(name, []).append((step, value))
    chosen = choose_name(origin, "scalar", list(scalars), tag, _PREFERRED)
    return curve(origin, scalars[chosen])


def _scalars(path: Path) -> Iterator[tuple[str, int, float]]:
    with path.open("rb") as stream:
        try:
            data = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError:
            return  # An empty file cannot be mapped.
        with data:
            yield from _records(path, data)


def _records(path: Path, data: mmap.mmap) -> Iterator[tuple[str, int, float]]:
    position, size = 0, len(data)
    while position + 12 <= size:
        head = data[position : position + 12]
        length, checksum = struct.unpack("<QI", head)
        if masked_crc32c(head[:8]) != checksum:
            raise _error(path, position, "the length of a record has a wrong checksum")
        if length + 16 > size - position:
            return  # The run ended while it wrote this record.
        start = position + 12
        if length <= _MAX_CHECKED:  # Scalars are small; images and graphs are skipped.
            record = data[start : start + length]
            (stored,) = struct.unpack("<I", data[start + length : start + length + 4])
            if masked_crc32c(record) != stored:
                raise _error(path, start, "a record has a wrong checksum")
            try:
                yield from _event(record)
            except (WireError, struct.error) as error:
                raise _error(path, start, f"not an event: {error}") from None
        position = start + length + 4


def _event(data: bytes) -> Iterator[tuple[str, int, float]]:
    """The scalars of one event: its step is field 2, its summary field 5."""
    step = 0
    values: list[tuple[str, float]] = []
    for field in Message(data, 0, len(data)).fields():
        if field.number == 2 and field.wire == VARINT:
            step = field.as_int()
        elif field.number == 5 and field.wire == BYTES:
            for value in field.as_message().fields():
                if value.number == 1 and value.wire == BYTES:
                    values += _value(value.as_message())
    yield from ((name, step, number) for name, number in values)


def _value(message: Message) -> list[tuple[str, float]]:
    """A value has a tag (1) and a number: simple_value (2), or a tensor (8) with one element."""
    name, number = "", None
    for field in message.fields():
        if field.number == 1 and field.wire == BYTES:
            name = field.as_text()
        elif field.number == 2 and field.wire == FIXED32:
            number = float(field.as_floats("f")[0])
        elif field.number == 8 and field.wire == BYTES:
            number = _tensor(field.as_message())
    return [] if number is None or not name else [(name, number)]


def _tensor(message: Message) -> float | None:
    dtype, found = 0, None
    for field in message.fields():
        if field.number == 1 and field.wire == VARINT:
            dtype = field.as_uint()
        elif field.number == 4 and field.wire == BYTES:
            raw = field.as_bytes()
            if dtype == _FLOAT and len(raw) == 4:
                found = float(struct.unpack("<f", raw)[0])
            elif dtype == _DOUBLE and len(raw) == 8:
                found = float(struct.unpack("<d", raw)[0])
        elif field.number == 5 and dtype == _FLOAT:
            values = field.as_floats("f")
            found = values[0] if len(values) == 1 else None
        elif field.number == 6 and dtype == _DOUBLE:
            values = field.as_floats("d")
            found = values[0] if len(values) == 1 else None
    return found


def _error(path: Path, position: int, reason: str) -> LossFileError:
    return LossFileError(
        f"{path} is damaged or not an event file: byte {position}: {reason}", slug="loss-file"
    )


def _table() -> list[int]:
    """CRC-32C by bytes: the polynomial of Castagnoli, reflected."""
    numbers = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        numbers = np.where(numbers & 1, (numbers >> 1) ^ np.uint32(0x82F63B78), numbers >> 1)
    return [int(number) for number in numbers]


_CRC = _table()


def masked_crc32c(data: bytes) -> int:
    """The checksum of TensorBoard's records: CRC-32C, rotated, plus a constant."""
    crc = 0xFFFFFFFF
    table = _CRC
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
