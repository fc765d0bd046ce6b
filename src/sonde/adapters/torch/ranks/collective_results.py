"""What a rank gives to a collective and gets from it, as hashes and a few numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import torch

from sonde.adapters.torch.ranks.digests import plain, project, tensor_digest

_MOST_ELEMENTS: Final = 1 << 24
"""Of a tensor whose projections are computed, in double precision."""


def hashes(value: Any) -> tuple[int, ...]:
    """Of a tensor, or of each tensor in a list; without those that have no values to read."""
    tensors = value if isinstance(value, (list, tuple)) else (value,)
    return tuple(
        tensor_digest(each)
        for each in tensors
        if isinstance(each, torch.Tensor) and plain(each) is not None
    )


def part_hashes(value: Any, sizes: Sequence[int] | None, parts: int) -> tuple[int, ...]:
    """Of the parts of a tensor along its first dimension, one for each rank; 0 for an empty one.
    ``sizes``: of the parts, None: all equal. Empty if the tensor cannot be divided so."""
    values = plain(value) if isinstance(value, torch.Tensor) else None
    if values is None or not values.dim():
        return ()
    if sizes is None:
        if values.shape[0] % parts:
            return ()
        sizes = [values.shape[0] // parts] * parts
    if len(sizes) != parts or sum(sizes) != values.shape[0]:
        return ()
    return tuple(tensor_digest(each) for each in torch.split(values, list(sizes)))


def sums(value: Any) -> tuple[float, ...]:
    """The projections of a floating-point tensor, then its norm; empty of others. They are exact
    enough to be compared with those of a sum over ranks."""
    values = plain(value) if isinstance(value, torch.Tensor) else None
    if values is None or not values.is_floating_point() or values.numel() > _MOST_ELEMENTS:
        return ()
    exact = values.double()
    return (*project(exact).tolist(), float(exact.norm()))
