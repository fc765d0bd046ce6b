"""Compares what a replay computed with what the training computed, bit for bit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

Quantity = Literal["output", "output gradient", "loss", "parameter gradient", "buffer", "random"]
_BYTES = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclass(frozen=True, slots=True)
class ReplayDifference:
    """A tensor that the replay computed differently.

    ``elements`` of ``total`` differ, at most by ``largest`` (NaN where one value is not a number
    and the other is; 0 where only the bits differ). ``total`` is 0 if shape or dtype differ.
    """

    quantity: Quantity
    name: str
    elements: int
    total: int
    largest: float


def difference(
    quantity: Quantity, name: str, before: torch.Tensor | None, now: torch.Tensor | None
) -> ReplayDifference | None:
    """How ``now`` differs from ``before``; None if they are equal bit for bit. NaN equals NaN only
    with the same bits."""
    if before is None or now is None:
        if before is None and now is None:
            return None
        return ReplayDifference(quantity, name, 1, 0, float("nan"))
    before, now = before.detach(), now.detach()
    if before.shape != now.shape or before.dtype != now.dtype or before.layout != now.layout:
        return ReplayDifference(quantity, name, 1, 0, float("nan"))
    if has_same_bits(before, now):
        return None
    differs = _bits(before) != _bits(now)
    distance = (_wide(before) - _wide(now)).abs()
    equal = _wide(before) == _wide(now)
    distance = torch.where(equal, torch.zeros_like(distance), distance)
    return ReplayDifference(
        quantity, name, int(differs.sum()), before.numel(), float(distance.max().item())
    )


def has_same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors of the same shape, dtype and layout are equal, bit for bit."""
    return torch.equal(_bits(one), _bits(other))


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """The elements as integers; complex numbers as pairs."""
    if tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    plain = tensor.resolve_neg().contiguous()
    return plain.view(_BYTES[plain.element_size()]) if plain.dtype is not torch.bool else plain


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    return (
        torch.view_as_real(tensor.to(torch.complex128))
        if tensor.is_complex()
        else (tensor.to(torch.float64))
    )
