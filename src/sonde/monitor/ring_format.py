"""The format of ``signals.rank_N.ring``: its header and its rows (docs/signals.md).

All numbers are little-endian. The header has the sizes and, as JSON, the names of the columns and
parameters. Each row has a sequence number, the hash of the batch, one float64 for each column, one
float32 for each parameter, and a CRC-32 of all of these. A row that was being written when the
process was killed has a wrong CRC.
"""

from __future__ import annotations

import json
import math
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from sonde.core.errors import SondeError

MAGIC: Final = b"SONDESIG"
VERSION: Final = 1
ROWS: Final = 1000
MOST_ROWS: Final = 1_000_000
MOST_COLUMNS: Final = 256
MOST_PARAMETERS: Final = 20_000
_MOST_NAME_BYTES: Final = 64 << 20
_HEAD: Final = struct.Struct("<8s8I")
_PAGE: Final = 4096


class SignalsError(SondeError):
    """A file of signals that is missing, damaged or of another version."""


@dataclass(frozen=True, slots=True)
class RingLayout:
    """Where everything is in a file of signals."""

    columns: tuple[str, ...]
    parameters: tuple[str, ...]
    rank: int = 0
    rows: int = ROWS

    @property
    def row_type(self) -> np.dtype[np.void]:
        """A row as a structured type of numpy, without padding."""
        return np.dtype(
            [
                ("sequence", "<u8"),
                ("batch_hash", "<u8"),
                ("numbers", "<f8", (len(self.columns),)),
                ("gradients", "<f4", (len(self.parameters),)),
                ("crc", "<u4"),
            ]
        )

    def header(self) -> bytes:
        """The header, padded to whole pages."""
        names = json.dumps(
            {
                "columns": list(self.columns),
                "parameters": list(self.parameters),
                "rank": self.rank,
            }
        ).encode()
        start = -(-(_HEAD.size + len(names)) // _PAGE) * _PAGE
        head = _HEAD.pack(
            MAGIC,
            VERSION,
            start,
            self.row_type.itemsize,
            self.rows,
            len(self.columns),
            len(self.parameters),
            len(names),
            zlib.crc32(names),
        )
        return (head + names).ljust(start, b"\0")


def parse_header(data: bytes, size: int, path: Path) -> tuple[RingLayout, int]:
    """The layout of a file of ``size`` bytes that begins with ``data``, and where its rows start.

    SignalsError if the header is not one of this version, or the file is shorter than it says.
    """
    if len(data) < _HEAD.size or not data.startswith(MAGIC):
        raise _damaged(path, "it is not a file of signals")
    _, version, start, row_bytes, rows, columns, parameters, length, crc = _HEAD.unpack_from(data)
    if version != VERSION:
        raise SignalsError(
            f"{path} has version {version} of the format; this Sonde reads version {VERSION}",
            slug="signals-file",
        )
    names = data[_HEAD.size : _HEAD.size + length]
    if (
        not 0 < rows <= MOST_ROWS
        or columns > MOST_COLUMNS
        or parameters > MOST_PARAMETERS
        or length > _MOST_NAME_BYTES
        or start < _HEAD.size + length
        or size < start + rows * row_bytes
        or zlib.crc32(names) != crc
    ):
        raise _damaged(path, "its header is damaged, or the file was cut off")
    layout = _layout(names, rows, path)
    if (
        len(layout.columns) != columns
        or len(layout.parameters) != parameters
        or layout.row_type.itemsize != row_bytes
    ):
        raise _damaged(path, "its header contradicts itself")
    return layout, start


def header_bytes(data: bytes) -> int:
    """How many bytes the header has, given its beginning; at most what a valid one may have."""
    if len(data) < _HEAD.size:
        return len(data)
    length: int = _HEAD.unpack_from(data)[7]
    return _HEAD.size + min(length, _MOST_NAME_BYTES)


HEAD_BYTES: Final = _HEAD.size


def _layout(names: bytes, rows: int, path: Path) -> RingLayout:
    try:
        found = json.loads(names)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise _damaged(path, "its names cannot be read")
    rank = found.get("rank", 0)
    if not isinstance(rank, int) or isinstance(rank, bool) or not 0 <= rank < 1 << 31:
        raise _damaged(path, "its rank is not a number")
    return RingLayout(
        _texts(found.get("columns"), path), _texts(found.get("parameters"), path), rank, rows
    )


def _texts(found: object, path: Path) -> tuple[str, ...]:
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise _damaged(path, "its names cannot be read")
    if len(set(found)) != len(found):
        raise _damaged(path, "two of its columns have the same name")
    return tuple(found)


def _damaged(path: Path, reason: str) -> SignalsError:
    return SignalsError(f"{path} cannot be read: {reason}", slug="signals-file")


def without_duplicates(names: Sequence[str]) -> tuple[str, ...]:
    """The names, with a number after those that occurred before, and the first of them only if
    there are more than a file may have."""
    seen: dict[str, int] = {}
    found = []
    for name in names[:MOST_PARAMETERS]:
        count = seen.get(name, 0)
        seen[name] = count + 1
        found.append(f"{name}#{count + 1}" if count else name)
    return tuple(found)


def nan_row(layout: RingLayout) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    """One row without values."""
    row = np.zeros(1, layout.row_type)
    row["numbers"] = math.nan
    row["gradients"] = math.nan
    return row
