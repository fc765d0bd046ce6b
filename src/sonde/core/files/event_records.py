"""The records of TensorBoard's event files.

A file is a sequence of records: length (8 bytes), its checksum, the event, its checksum. A file
that ends inside a record is still being written, or its writer was killed: the record is ignored.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

EVENT_MARK = "tfevents"
"""What the name of every event file contains."""
_MAX_CHECKED = 1 << 16
_HEAD, _TAIL = 12, 4


class RecordError(ValueError):
    """Bytes that are not a record; ``position`` is the byte in the file."""

    def __init__(self, reason: str, position: int) -> None:
        super().__init__(f"byte {position}: {reason}")
        self.reason = reason
        self.position = position


class EventRecord(NamedTuple):
    """An event: its bytes begin at ``start`` of the file; ``stop`` is where the next record is."""

    data: bytes
    start: int
    stop: int


def event_files(directory: Path) -> list[Path]:
    """The event files in a directory, oldest first."""
    return sorted(
        path for path in directory.iterdir() if EVENT_MARK in path.name and path.is_file()
    )


def read_records(path: Path, start: int = 0, *, most: int | None = None) -> Iterator[EventRecord]:
    """The complete records from the byte ``start`` on, which begins one. Records longer than
    ``most`` bytes are skipped. RecordError at a wrong checksum; that of a record longer than 64 kB
    is not computed, because it takes 0.2 seconds for a megabyte."""
    with path.open("rb") as stream:
        try:
            data = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError:
            return  # An empty file cannot be mapped.
        with data:
            yield from _records(data, start, most)


def _records(data: mmap.mmap, position: int, most: int | None) -> Iterator[EventRecord]:
    size = len(data)
    while position + _HEAD <= size:
        head = data[position : position + _HEAD]
        length, checksum = struct.unpack("<QI", head)
        if masked_crc32c(head[:8]) != checksum:
            raise RecordError("the length of a record has a wrong checksum", position)
        if length + _HEAD + _TAIL > size - position:
            return
        start = position + _HEAD
        position = start + length + _TAIL
        if most is not None and length > most:
            continue
        record = data[start : start + length]
        (stored,) = struct.unpack("<I", data[start + length : position])
        if length <= _MAX_CHECKED and masked_crc32c(record) != stored:
            raise RecordError("a record has a wrong checksum", start)
        yield EventRecord(record, start, position)


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
