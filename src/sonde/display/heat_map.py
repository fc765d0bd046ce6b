"""A heat map as a PNG image inside HTML.

NaN and infinities have colours of their own and are never averaged away: a cell that covers one has
its colour. The colours are those of the debugger's page.
"""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sonde.kernels.downsample import NAN, NEGATIVE_INF, POSITIVE_INF, heat_of

MOST_ROWS: Final = 48
MOST_COLUMNS: Final = 96
MARK_COLOURS: Final = {
    "nan": (NAN, (214, 39, 180)),
    "+inf": (POSITIVE_INF, (245, 214, 40)),
    "-inf": (NEGATIVE_INF, (20, 165, 90)),
}
_NEGATIVE: Final = (48, 120, 208)
_POSITIVE: Final = (226, 118, 28)
_MIDDLE: Final = (248, 248, 246)
_LARGEST_CELL: Final = 14
_WIDTH: Final = 384


def plane_of(values: NDArray[Any]) -> NDArray[Any]:
    """``values`` as rows and columns: the last dimension are the columns, all others the rows."""
    if values.ndim < 2:
        return values.reshape(1, -1)
    return values.reshape(-1, values.shape[-1])


def heat_map(values: NDArray[Any]) -> str:
    """An ``<img>`` of ``values``, which have at least one element. Blue is below zero, orange
    above; of values on one side of zero only, orange is the highest."""
    plane = plane_of(values)

    def band(first: int, last: int) -> NDArray[np.float64]:
        return plane[first:last].astype(np.float64)

    height, width = plane.shape
    rows, columns, cells, marks, low, high = heat_of(
        (height, width), band, MOST_ROWS, MOST_COLUMNS, "largest"
    )
    numbers = np.array([np.nan if each is None else each for each in cells], np.float64)
    pixels = _colours(numbers, low or 0.0, high or 0.0)
    for bit, colour in reversed(list(MARK_COLOURS.values())):  # NaN last: it hides the others.
        pixels[(np.array(marks) & bit) != 0] = colour
    image = b64encode(_png(pixels.reshape(rows, columns, 3))).decode()
    size = max(1, min(_LARGEST_CELL, _WIDTH // columns))
    style = (
        f"width:{columns * size}px;height:{rows * size}px;image-rendering:pixelated;"
        "border:1px solid #80808080;margin:2px 0"
    )
    alt = f"heat map of {height:,} x {width:,} values"
    return f'<img style="{style}" alt="{alt}" src="data:image/png;base64,{image}">'


def _colours(cells: NDArray[np.float64], low: float, high: float) -> NDArray[np.uint8]:
    """The colour of each cell; cells without finite elements are gray."""
    known = np.isfinite(cells)
    filled = np.where(known, cells, 0.0)
    if low < 0 < high:
        size = max(-low, high)
        shares = filled / size
    elif low == high:
        shares = np.sign(filled) * (0.0 if low == 0 else 0.5)
    else:  # Of one sign, so that the difference does not overflow.
        shares = (filled - low) / (high - low)
    ends = np.where(shares[:, None] < 0, _NEGATIVE, _POSITIVE)
    middle = np.array(_MIDDLE, np.float64)
    mixed = middle + (ends - middle) * np.clip(np.abs(shares), 0, 1)[:, None]
    mixed[~known] = 128
    return np.asarray(mixed.round(), np.uint8)


def _png(pixels: NDArray[np.uint8]) -> bytes:
    """A PNG file of RGB ``pixels``: signature, header, data, end; each row begins with filter 0."""
    height, width, _ = pixels.shape
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    raw = b"".join(b"\0" + row.tobytes() for row in pixels)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(raw, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )
