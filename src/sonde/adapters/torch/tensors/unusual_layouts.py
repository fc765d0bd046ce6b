"""Reads the values that sparse, nested and oneDNN tensors store, and parts of distributed ones."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from sonde.core.interruption import pass_on
from sonde.dump.graph_files.placement import placement_text

_COMPRESSED = (torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)


def stored_values(tensor: torch.Tensor) -> torch.Tensor | None:
    """A plain tensor over the memory of all values that ``tensor`` stores; a copy of those of a
    oneDNN tensor, whose memory only oneDNN can read.

    None for other tensors, and if it also stores values that are not its elements.
    """
    try:
        if tensor.layout is torch.sparse_coo:
            return tensor.detach()._values()
        if tensor.layout in _COMPRESSED:
            return tensor.detach().values()
        if tensor.is_mkldnn:
            return tensor.detach().to_dense()
        if tensor.is_nested:
            return _nested_values(tensor)
    except (AttributeError, NotImplementedError, RuntimeError) as error:
        pass_on(error)
    return None


def elements(tensor: torch.Tensor) -> tuple[torch.Tensor, int] | None:
    """The stored elements as a plain tensor, in no particular order, and the number of the other
    elements, which are zero; None if that is unknown.

    Several entries of a COO tensor for one element are added up.
    """
    try:
        is_apart = tensor.layout is torch.sparse_coo and not tensor.is_coalesced()
        found = stored_values(tensor.detach().coalesce() if is_apart else tensor)
    except (NotImplementedError, RuntimeError) as error:
        pass_on(error)
        return None
    if found is None or found.numel() > tensor.numel():
        return None
    return found, tensor.numel() - found.numel()


def local_part(tensor: torch.Tensor) -> torch.Tensor:
    """The part of a DTensor that this rank holds; the result of an asynchronous collective, if the
    program has waited for it. Any other tensor is returned as it is. Nothing is waited for."""
    part: Any = tensor
    while True:
        if _is_distributed(part):
            part = part._local_tensor
        elif _is_collective_result(part) and part.completed:
            part = part.elem
        else:
            return part  # type: ignore[no-any-return]


def is_pending(tensor: torch.Tensor) -> bool:
    """Whether ``tensor`` is the result of a collective for which the program has not waited."""
    return _is_collective_result(local_part(tensor))


def placement_of(tensor: Any) -> str | None:
    """How a DTensor is distributed (`dump.graph_files.placement`); None for others."""
    if not _is_distributed(tensor):
        return None
    mesh = tensor.device_mesh
    return placement_text(tensor.placements, tensor.shape, mesh.shape, _axis_ranks(mesh))


def _axis_ranks(mesh: Any) -> list[list[int]]:
    """For each axis of a mesh the ranks along it, through this rank; empty if they are not known.
    Runs no op: ``mesh.mesh`` would compute a tensor."""
    try:
        groups = [mesh.get_group(axis) for axis in range(mesh.ndim)]
        return [dist.get_process_group_ranks(group) for group in groups]
    except Exception as error:  # A mesh without groups.
        pass_on(error)
        return []


def _is_distributed(tensor: Any) -> bool:
    return type(tensor).__name__ == "DTensor" and hasattr(tensor, "_local_tensor")


def _is_collective_result(tensor: Any) -> bool:
    return type(tensor).__name__ == "AsyncCollectiveTensor" and hasattr(tensor, "completed")


def _nested_values(tensor: Any) -> torch.Tensor | None:
    """The values, without torch's accessors, which crash while the tensor is being made."""
    if tensor.layout is torch.jagged:
        has_holes = tensor._lengths is not None
        values = tensor._values
        return values.detach() if not has_holes and isinstance(values, torch.Tensor) else None
    plain = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    plain.set_(tensor.untyped_storage())
    return plain if plain.numel() == tensor.numel() else None
