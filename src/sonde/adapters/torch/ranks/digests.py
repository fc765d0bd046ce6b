"""Hashes and projections of tensors: a few numbers that tell whether two ranks have the same.

The hash is of the bytes in the order of the elements, so that a tensor whose elements have changed
places has another hash. A projection is the product with a fixed vector of +1 and -1.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
import xxhash

from sonde.adapters.torch.tensors.unusual_layouts import is_pending, local_part
from sonde.ranks.report import PROJECTIONS

_ROW = 4096
_SEED = 0x50DE


def plain(tensor: torch.Tensor) -> torch.Tensor | None:
    """The dense values of ``tensor`` that this rank holds; None if there are none to read, as of a
    collective for which the program has not waited."""
    if is_pending(tensor):
        return None
    found = local_part(tensor).detach()
    if found.layout is not torch.strided or found.is_nested or found.device.type == "meta":
        return None
    return found if found.numel() else None


def tensor_digest(tensor: torch.Tensor) -> int:
    """A 64-bit hash of dtype, shape and elements; 0 if there are no values to read."""
    values = plain(tensor)
    if values is None:
        return 0
    found = xxhash.xxh3_64(f"{values.dtype}{tuple(values.shape)}".encode())
    data: Any = _bytes(values)
    found.update(data)
    return found.intdigest() or 1


def _bytes(values: torch.Tensor) -> Any:
    if values.is_complex():
        values = torch.view_as_real(values.resolve_conj())
    return values.resolve_neg().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()


def is_constant(tensor: torch.Tensor) -> bool:
    """Whether all elements are equal."""
    values = plain(tensor)
    return values is None or bool((values == values.reshape(-1)[0]).all())


def project(values: torch.Tensor, offset: int = 0) -> torch.Tensor:
    """The projections of a dense floating-point tensor, on its device; linear in its elements.
    ``offset``: the place of the first of them in a larger tensor, whose projections are the sum of
    those of its parts."""
    flat = values.reshape(-1).to(torch.float64 if values.dtype == torch.float64 else torch.float32)
    whole = flat.numel() // _ROW * _ROW
    signs = _signs(flat.device, flat.dtype)
    if offset % _ROW:
        signs = signs.roll(-(offset % _ROW), 1)
    rest = flat[whole:]
    found = signs[:, : rest.numel()] @ rest
    if whole:
        found = found + signs @ flat[:whole].view(-1, _ROW).sum(0)
    return found


@functools.lru_cache(maxsize=8)
def _signs(device: torch.device, dtype: torch.dtype) -> torch.Tensor:
    random = torch.Generator().manual_seed(_SEED)
    signs = torch.randint(0, 2, (PROJECTIONS, _ROW), generator=random) * 2 - 1
    return signs.to(device, dtype)
