"""Norms of many tensors, and how many of their values are not finite."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from sonde.adapters.torch.debugging.signals.private import foreach_norm
from sonde.adapters.torch.tensors.unusual_layouts import elements, local_part


def norms(tensors: Sequence[torch.Tensor | None]) -> npt.NDArray[np.float64]:
    """The L2 norm of each tensor; NaN for None and for tensors without values to read.

    A norm is computed in float32 (float64 for float64), and again in float64 if it is not finite:
    so it is infinite or NaN only if a value is. Of a DTensor the norm of this rank's part is taken.
    Several entries of a sparse tensor for one element are added up first. All tensors of a device
    cost one transfer to the host.
    """
    found = np.full(len(tensors), math.nan)
    groups: dict[tuple[torch.device, torch.dtype], tuple[list[int], list[torch.Tensor]]] = {}
    for number, tensor in enumerate(tensors):
        if tensor is None:
            continue
        plain = _plain(tensor)
        if plain is not None:
            group = groups.setdefault((plain.device, plain.dtype), ([], []))
            group[0].append(number)
            group[1].append(plain)
    for (_, dtype), (numbers, members) in groups.items():
        wide = None if dtype in _WIDE else torch.float32
        several = foreach_norm(members) if wide is None else foreach_norm(members, 2, dtype=wide)
        found[numbers] = torch.stack(list(several)).double().cpu().numpy()
        for number, member in zip(numbers, members, strict=True):
            # Squares may overflow; the norm is NaN only if a value is.
            if math.isinf(found[number]) and dtype is not torch.float64:
                found[number] = float(torch.linalg.vector_norm(member.double()))
    return found


def non_finite(tensors: Sequence[torch.Tensor | None]) -> int:
    """How many values of the tensors are NaN or infinite."""
    count = 0
    elsewhere = []
    for tensor in tensors:
        plain = None if tensor is None else _plain(tensor)
        if plain is None:
            continue
        if plain.device.type == "cpu" and plain.dtype in _OF_NUMPY:
            # In one pass, where torch makes five: once weights are NaN every step counts them.
            finite = np.isfinite(plain.numpy())
            count += finite.size - int(np.count_nonzero(finite))
        else:
            elsewhere.append((~torch.isfinite(plain)).sum())
    return count + sum(map(int, elsewhere))


def whole_norm(parts: npt.NDArray[np.float64]) -> float:
    """The norm of all tensors together; NaN entries, which have no norm, are left out, infinite
    ones make it infinite. NaN if there are none."""
    known = parts[~np.isnan(parts)]
    return float(np.sqrt(np.sum(np.square(known)))) if len(known) else math.nan


_OF_NUMPY = (torch.float32, torch.float64)
_WIDE = (torch.float32, torch.float64, torch.complex64, torch.complex128)


def _plain(tensor: torch.Tensor) -> torch.Tensor | None:
    """A dense tensor of floating-point values with the norm of ``tensor``."""
    plain = local_part(tensor).detach()
    if plain.layout is not torch.strided or plain.is_nested:
        stored = elements(plain)
        if stored is None:
            return None
        plain = stored[0]
    if plain.device.type == "meta":
        return None
    if not (plain.is_floating_point() or plain.is_complex()):
        return None
    if plain.is_complex():
        plain = torch.view_as_real(plain)
    if plain.dtype.itemsize == 1:  # Float8 has no norm of its own.
        plain = plain.float()
    return plain
