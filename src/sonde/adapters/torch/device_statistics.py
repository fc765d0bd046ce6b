"""Statistics with torch ops on the tensor's own device, fetched once per step.

The same numbers as the host kernel's rows (``sonde.kernels``), without a synchronisation per
tensor: a row is a small tensor on the device until ``gather`` brings all of them over.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from sonde.core.statistics import ROW_COLUMNS

_EXACT = (torch.int64, torch.uint64)
_SMALL = (torch.bool, torch.uint16, torch.uint32)


def device_row(tensor: torch.Tensor, code: int, *, high_precision: bool) -> torch.Tensor:
    """The raw row of ``tensor``, on its device, as float64 (float32 where there is none).

    ``high_precision`` sums in float64 (float32 where the device lacks it); else in the tensor's
    own dtype, which takes less memory and may overflow, as documented.
    """
    wide = torch.float32 if tensor.device.type == "mps" else torch.float64
    if tensor.dtype in _SMALL:
        tensor = tensor.to(torch.int64)
    elif tensor.is_floating_point() and tensor.element_size() == 1:
        tensor = tensor.float()
    count = tensor.numel()
    if not count:
        return _empty_row(code, wide, tensor.device)
    summed = tensor.to(wide) if high_precision or not tensor.is_floating_point() else tensor
    if tensor.is_floating_point():
        is_nan, is_inf = tensor.isnan(), tensor.isinf()
        positive_inf, negative_inf = tensor.isposinf(), tensor.isneginf()
        bad = is_nan | is_inf
        nowhere = torch.full((), float("nan"), dtype=wide, device=tensor.device)
        some = ~bad.all()
        largest = torch.where(bad, float("-inf"), tensor).amax().to(wide)
        smallest = torch.where(bad, float("inf"), tensor).amin().to(wide)
        counts = [is_nan.sum(), positive_inf.sum(), negative_inf.sum()]
        finite = [torch.where(some, largest, nowhere), torch.where(some, smallest, nowhere)]
        extremes = [tensor.amax(), tensor.amin()]
    else:
        none = torch.zeros((), dtype=torch.int64, device=tensor.device)
        counts = [none, none, none]
        extremes = [_amax(tensor), _amin(tensor)]
        exact = tensor.dtype in _EXACT and wide is torch.float64
        finite = [_bits(value) if exact else value for value in extremes]
    mean = summed.mean()
    values = [
        torch.full((), count, device=tensor.device),
        *counts,
        (tensor == 0).sum(),
        (tensor < 0).sum(),
        (tensor > 0).sum(),
        *extremes,
        *finite,
        mean,
        torch.linalg.vector_norm(summed),
        (summed - mean).square().mean().sqrt(),
        summed.abs().mean(),
        torch.full((), code, device=tensor.device),
    ]
    return torch.stack([value.to(wide) for value in values])


def _amax(tensor: torch.Tensor) -> torch.Tensor:
    return (
        tensor.view(torch.int64).bitwise_xor(_SIGN).amax().bitwise_xor(_SIGN).view(torch.uint64)
        if tensor.dtype == torch.uint64
        else tensor.amax()
    )


def _amin(tensor: torch.Tensor) -> torch.Tensor:
    return (
        tensor.view(torch.int64).bitwise_xor(_SIGN).amin().bitwise_xor(_SIGN).view(torch.uint64)
        if tensor.dtype == torch.uint64
        else tensor.amin()
    )


_SIGN = -(1 << 63)


def _bits(value: torch.Tensor) -> torch.Tensor:
    """The 64 bits of an integer in the clothes of a float64, as the host kernel keeps them."""
    return value.contiguous().view(torch.float64)


def _empty_row(code: int, wide: torch.dtype, device: torch.device) -> torch.Tensor:
    row = torch.full((ROW_COLUMNS,), float("nan"), dtype=wide, device=device)
    row[:7] = 0
    row[-1] = code
    return row


def gather(rows: Sequence[torch.Tensor]) -> NDArray[np.float64]:
    """All rows on the host, in one transfer per device."""
    found = np.empty((len(rows), ROW_COLUMNS), np.float64)
    by_device: dict[torch.device, list[int]] = {}
    for position, row in enumerate(rows):
        by_device.setdefault(row.device, []).append(position)
    for positions in by_device.values():
        block = torch.stack([rows[position] for position in positions]).cpu()
        found[positions] = block.to(torch.float64).numpy()
    return found
