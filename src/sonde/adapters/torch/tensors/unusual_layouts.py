"""Reads the stored values of sparse, nested and distributed tensors."""

from __future__ import annotations

from typing import Any, TypeGuard

import torch

from sonde.core.interruption import pass_on

_COMPRESSED = (torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)


def stored_values(tensor: torch.Tensor) -> torch.Tensor | None:
    """A plain tensor over the memory of all values that ``tensor`` stores.

    None for other tensors, and if it also stores values that are not its elements.
    """
    try:
        if tensor.layout is torch.sparse_coo:
            return tensor.detach()._values()
        if tensor.layout in _COMPRESSED:
            return tensor.detach().values()
        if tensor.is_nested:
            return _nested_values(tensor)
        if _is_distributed(tensor):
            local: torch.Tensor = tensor._local_tensor.detach()
            return local
    except (AttributeError, NotImplementedError, RuntimeError) as error:
        pass_on(error)
    return None


def elements(tensor: torch.Tensor) -> tuple[torch.Tensor, int] | None:
    """The stored elements as a plain tensor, in no particular order, and the number of the other
    elements, which are zero; None if that is unknown.

    Several entries of a COO tensor for one element are added up. Of a distributed tensor, only the
    part of this rank is returned.
    """
    try:
        is_apart = tensor.layout is torch.sparse_coo and not tensor.is_coalesced()
        found = stored_values(tensor.detach().coalesce() if is_apart else tensor)
    except (NotImplementedError, RuntimeError) as error:
        pass_on(error)
        return None
    if found is None or found.numel() > tensor.numel():
        return None
    return found, 0 if _is_distributed(tensor) else tensor.numel() - found.numel()


def _is_distributed(tensor: Any) -> TypeGuard[Any]:
    return type(tensor).__name__ == "DTensor" and hasattr(tensor, "_local_tensor")


def _nested_values(tensor: Any) -> torch.Tensor | None:
    """The values, without torch's accessors, which crash while the tensor is being made."""
    if tensor.layout is torch.jagged:
        has_holes = tensor._lengths is not None
        values = tensor._values
        return values.detach() if not has_holes and isinstance(values, torch.Tensor) else None
    plain = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    plain.set_(tensor.untyped_storage())
    return plain if plain.numel() == tensor.numel() else None
