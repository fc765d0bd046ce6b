"""Layouts in which Ascend devices keep tensors, and how they become those of the network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

# The numbers of the layouts in Ascend's raw dumps that have a meaning outside the device.
FORMATS = {
    0: "NCHW",
    1: "NHWC",
    2: "ND",
    3: "NC1HWC0",
    4: "FRACTAL_Z",
    12: "NC1HWC0_C04",
    16: "HWCN",
    26: "MD",
    27: "NDHWC",
    29: "FRACTAL_NZ",
    30: "NCDHW",
}
_HOST = frozenset({"NCHW", "NHWC", "ND", "NDHWC", "NCDHW", "MD", "DefaultFormat"})
_SAME = {"FracZ": "FRACTAL_Z", "FracNZ": "FRACTAL_NZ", "NC1HWC0_C04": "NC1HWC0"}

Values = NDArray[Any]


def is_host_format(name: str) -> bool:
    """Whether tensors have the same shape in this layout as in the network."""
    return name in _HOST


def to_host(values: Values, format: str, shape: Sequence[int]) -> Values | None:
    """The values in the layout of the network, where they have ``shape`` (NCHW for images).

    None if the layout is not known, or does not fit the shape.
    """
    convert = _CONVERTERS.get(_SAME.get(format, format))
    try:
        found = None if convert is None else convert(values, tuple(shape))
    except ValueError:  # The sizes do not fit each other.
        return None
    if found is None or found.shape != tuple(shape):
        return None
    return np.ascontiguousarray(found)


def _from_nc1hwc0(values: Values, shape: tuple[int, ...]) -> Values | None:
    """Channels in C1 groups of C0, the last one filled up with zeros."""
    if values.ndim != 5 or len(shape) != 4:
        return None
    n, c1, h, w, c0 = values.shape
    joined = values.transpose(0, 1, 4, 2, 3).reshape(n, c1 * c0, h, w)
    return joined[:, : shape[1]]


def _from_fractal_z(values: Values, shape: tuple[int, ...]) -> Values | None:
    """Filters, in blocks of 16 output channels by C0 input channels."""
    if values.ndim != 4 or len(shape) != 4:
        return None
    n, c, h, w = shape
    rows, n1, n0, c0 = values.shape
    c1 = rows // (h * w) if h * w else 0
    blocks = values.reshape(c1, h, w, n1, n0, c0).transpose(3, 4, 0, 5, 1, 2)
    return blocks.reshape(n1 * n0, c1 * c0, h, w)[:n, :c]


def _from_fractal_nz(values: Values, shape: tuple[int, ...]) -> Values | None:
    """Matrices in blocks: columns of blocks first, rows inside a block."""
    if values.ndim < 4 or len(shape) != values.ndim - 2:
        return None
    *batch, n1, m1, m0, n0 = values.shape
    last = values.ndim
    order = (*range(last - 4), last - 3, last - 2, last - 4, last - 1)
    joined = values.transpose(order).reshape(*batch, m1 * m0, n1 * n0)
    return joined[..., : shape[-2], : shape[-1]]


def _from_hwcn(values: Values, shape: tuple[int, ...]) -> Values | None:
    return values.transpose(3, 2, 0, 1) if values.ndim == 4 else None


_CONVERTERS: dict[str, Callable[[Values, tuple[int, ...]], Values | None]] = {
    "NC1HWC0": _from_nc1hwc0,
    "FRACTAL_Z": _from_fractal_z,
    "FRACTAL_NZ": _from_fractal_nz,
    "HWCN": _from_hwcn,
}
