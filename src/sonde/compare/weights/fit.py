"""Brings a parameter of one framework to the shape that it has in another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Orders of axes that frameworks use, as the axes of b that give the order of a: a transposed
# matrix; NHWC and HWIO against NCHW, in both directions; a one-dimensional convolution.
_LAYOUTS: dict[int, tuple[tuple[int, ...], ...]] = {
    2: ((1, 0),),
    3: ((0, 2, 1), (2, 1, 0), (1, 2, 0), (2, 0, 1)),
    4: ((0, 3, 1, 2), (0, 2, 3, 1), (3, 2, 0, 1), (2, 3, 1, 0), (1, 0, 2, 3)),
    5: ((0, 4, 1, 2, 3), (0, 2, 3, 4, 1), (4, 3, 0, 1, 2), (2, 3, 4, 1, 0)),
}


@dataclass(frozen=True, slots=True)
class Fit:
    """How b is brought to the shape of a: by another order of axes, or without sizes of 1."""

    axes: tuple[int, ...] | None = None
    reshaped: bool = False

    @property
    def is_plain(self) -> bool:
        return self.axes is None and not self.reshaped

    def apply(self, b: NDArray[Any], shape_a: Sequence[int]) -> NDArray[Any]:
        """The elements of b in the order and shape of a."""
        if self.axes is not None:
            b = np.transpose(b, self.axes)
        return b.reshape(tuple(shape_a)) if self.reshaped else b

    def __str__(self) -> str:
        if self.axes is not None:
            return "transposed" if len(self.axes) == 2 else f"axes {list(self.axes)}"
        return "reshaped" if self.reshaped else ""


def fit(a: Sequence[int], b: Sequence[int]) -> Fit | None:
    """How shape ``b`` becomes shape ``a``, in the simplest way; None if the shapes do not fit."""
    a, b = tuple(a), tuple(b)
    if a == b:
        return Fit()
    if prod(a) != prod(b):
        return None
    if [size for size in a if size != 1] == [size for size in b if size != 1]:
        return Fit(reshaped=True)
    if len(a) != len(b):
        return None
    for axes in _LAYOUTS.get(len(a), ()):
        if tuple(b[axis] for axis in axes) == a:
            return Fit(axes)
    return None


def other_orders(shape: Sequence[int]) -> list[Fit]:
    """The transpositions that do not change the shape, which has equal sizes."""
    known = _LAYOUTS.get(len(shape), ()) if len(shape) <= 4 else ()
    return [
        Fit(axes) for axes in sorted(known) if tuple(shape[axis] for axis in axes) == tuple(shape)
    ]
