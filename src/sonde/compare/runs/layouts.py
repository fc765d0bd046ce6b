"""Brings one tensor to the layout of another: NHWC and NCHW, transposed or flattened tensors."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, permutations
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sonde import kernels

_SAMPLE = 4096
_TRIED = 120
_CLEARLY_DIFFERENT = 0.1
_CLEARLY_EQUAL = 0.02
_NAMES = {(0, 3, 1, 2): "NHWC to NCHW", (0, 2, 3, 1): "NCHW to NHWC", (1, 0): "transposed"}


def lay_out(
    a: NDArray[Any], b: NDArray[Any], *, is_weight: bool
) -> tuple[NDArray[Any], str | None] | None:
    """``a`` with the axes of ``b``, a view if possible, and the transformation; None if the
    numbers of elements differ.

    Equal shapes are kept, but if a weight differs clearly, other orders of its axes are tried: the
    shape of a square matrix does not show whether it is transposed.
    """
    if a.shape == b.shape:
        if is_weight and 2 <= a.ndim <= 5 and a.size > 1:
            turned = _turned_weight(a, b)
            if turned is not None:
                return turned
        return a, None
    if a.size != b.size:
        return None
    squeezed_a, squeezed_b = _without_ones(a.shape), _without_ones(b.shape)
    if squeezed_a == squeezed_b:
        return a.reshape(b.shape), None
    if sorted(squeezed_a) == sorted(squeezed_b):
        return _best_turn(a.reshape(squeezed_a), b.reshape(squeezed_b), b.shape)
    return a.reshape(b.shape), "reshaped"


def _without_ones(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(size for size in shape if size != 1)


def _turns(a: tuple[int, ...], b: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """The permutations of axes that give shape ``b``, common ones first."""
    every = [*(turn for turn in _NAMES if len(turn) == len(a)), *permutations(range(len(a)))]
    fitting = (turn for turn in dict.fromkeys(every) if tuple(a[axis] for axis in turn) == b)
    return islice(fitting, _TRIED)


def _best_turn(
    a: NDArray[Any], b: NDArray[Any], shape: tuple[int, ...]
) -> tuple[NDArray[Any], str | None]:
    name: str | None = "reshaped"
    best, best_error = a.reshape(b.shape), np.inf
    candidates = list(_turns(a.shape, b.shape))
    if len(candidates) > 1:
        best_error = _error(a.reshape(b.shape), b)
    for turn in candidates:
        turned = a.transpose(turn)
        error = _error(turned, b)
        if error < best_error or len(candidates) == 1:
            best, best_error, name = turned, error, _name(turn)
    return best.reshape(shape) if best.shape != shape else best, name


def _turned_weight(a: NDArray[Any], b: NDArray[Any]) -> tuple[NDArray[Any], str | None] | None:
    plain = _error(a, b)
    if not plain > _CLEARLY_DIFFERENT:
        return None
    for turn in _turns(a.shape, b.shape):
        turned = a.transpose(turn)
        if turn != tuple(range(a.ndim)) and _error(turned, b) < _CLEARLY_EQUAL:
            return turned, _name(turn)
    return None


def _error(a: NDArray[Any], b: NDArray[Any]) -> float:
    """The relative distance of a sample of elements with the same index."""
    step = max(1, prod(a.shape) // _SAMPLE)
    places = np.unravel_index(np.arange(0, a.size, step), a.shape)
    found = kernels.compare_arrays(a[places], b[places])
    return found.relative_l2 if found.finite_count else np.inf


def _name(turn: tuple[int, ...]) -> str | None:
    if turn == tuple(range(len(turn))):
        return None
    return _NAMES.get(turn) or f"axes {', '.join(str(axis) for axis in turn)}"
