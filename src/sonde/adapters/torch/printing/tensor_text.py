"""A tensor as text, the way MindSpore's ``Print`` writes it.

``Tensor(shape=[2, 1], dtype=Int32, value=``, a line break, the elements as numpy writes them, and
``)``; a tensor without dimensions stays on one line.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sonde.core.dtypes import BY_NAME

MOST_ELEMENTS = 1000
"""Tensors with more elements are elided: of each long axis the first and last EDGE are shown."""
EDGE = 3
_LINE_WIDTH = 100
_DIGITS = 8


def is_elided(shape: Sequence[int]) -> bool:
    """Whether a tensor of this shape is too large to be written whole."""
    count = 1
    for size in shape:
        count *= size
    return count > MOST_ELEMENTS


def shown_indices(size: int) -> list[int]:
    """The places of one axis of an elided tensor that its text depends on.

    Of a long axis there is one more than is shown: it makes numpy write the dots.
    """
    if size <= 2 * EDGE:
        return list(range(size))
    return [*range(EDGE + 1), *range(size - EDGE, size)]


def tensor_text(dtype: str, shape: Sequence[int], values: NDArray[Any]) -> str:
    """The text of a tensor of this dtype (the lower-case name) and shape.

    ``values`` are all its elements, or where ``is_elided(shape)`` those at ``shown_indices`` of
    every axis. NaN and infinities are ``nan``, ``inf``, ``-inf``; at most eight digits
    follow the decimal point; low precision is written as the nearest float32.
    """
    elements = np.array2string(
        values,
        max_line_width=_LINE_WIDTH,
        precision=_DIGITS,
        suppress_small=False,
        threshold=0 if is_elided(shape) else sys.maxsize,
        edgeitems=EDGE,
        floatmode="maxprec",
        sign="-",
    )
    between = "\n" if len(shape) else ""
    return f"{_head(dtype, shape)}, value={between}{elements})"


def unreadable_text(dtype: str, shape: Sequence[int], reason: str) -> str:
    """The text of a tensor whose elements cannot be read."""
    return f"{_head(dtype, shape)}, no values: {reason})"


def _head(dtype: str, shape: Sequence[int]) -> str:
    sizes = ", ".join(str(size) for size in shape)
    label = BY_NAME[dtype].label if dtype in BY_NAME else dtype
    return f"Tensor(shape=[{sizes}], dtype={label}"
