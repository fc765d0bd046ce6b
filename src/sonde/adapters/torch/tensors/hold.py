"""Keeps the bytes of tensors for later: as a copy, or in the training's own memory."""

from __future__ import annotations

from collections.abc import Callable

import torch

from sonde.adapters.torch import private

_CHANNELS_LAST = (torch.channels_last, torch.channels_last_3d)


class TorchHold:
    """Bytes kept for later. Holds the storage, not the tensor, so that autograd can still adopt a
    held gradient without a copy, as it does without Sonde."""

    def __init__(
        self, tensor: torch.Tensor, stored: str, shape: tuple[int, ...], layout: str, is_copy: bool
    ) -> None:
        self._storage = tensor.untyped_storage()
        self.address = tensor.data_ptr()
        self.nbytes = tensor.numel() * tensor.element_size()
        self.stored = stored
        self.shape = shape
        self.layout = layout
        self.strides = None if tensor.is_contiguous() else tensor.stride()
        self.is_copy = is_copy
        self.job = -1
        self.on_change: Callable[[int], None] | None = None

    def is_shared(self) -> bool:
        return not self.is_copy and private.storage_owners(self._storage) > 1


Lender = Callable[[torch.Tensor, TorchHold], None]
"""Registers a hold of the memory of a tensor; see ``lending``."""


def make_hold(
    tensor: torch.Tensor,
    stored: str,
    original: torch.Tensor,
    lend: Lender | None,
    *,
    memory_order: bool,
    sample: int,
) -> TorchHold:
    """Hold ``tensor``, the elements of ``original`` as type ``stored``; see ``core.sink``.

    It is copied if it is over the memory of ``original`` and there is no ``lend``.
    """
    if 0 < sample < tensor.numel():
        tensor = _sampled(tensor, sample)
    layout = "DefaultFormat"
    if memory_order and not tensor.is_contiguous() and _is_channels_last(tensor):
        tensor = tensor.movedim(1, -1)
        layout = "NHWC" if tensor.dim() == 4 else "NDHWC"
    shape = tuple(tensor.shape)
    if not same_memory(tensor, original):
        return TorchHold(tensor.contiguous(), stored, shape, layout, is_copy=True)
    if lend is not None:
        hold = TorchHold(tensor, stored, shape, layout, is_copy=False)
        lend(original, hold)
        return hold
    copy = tensor.clone(memory_format=torch.contiguous_format)
    return TorchHold(copy, stored, shape, layout, is_copy=True)


def same_memory(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors are over one storage."""
    return private.storage_id(one.untyped_storage()) == private.storage_id(other.untyped_storage())


def _is_channels_last(tensor: torch.Tensor) -> bool:
    return any(
        tensor.dim() == dims and tensor.is_contiguous(memory_format=order)
        for dims, order in zip((4, 5), _CHANNELS_LAST, strict=True)
    )


def _sampled(tensor: torch.Tensor, count: int) -> torch.Tensor:
    """``count`` elements, evenly spaced over the flattened tensor, the first and last included."""
    if count == 1:
        positions = torch.zeros(1, dtype=torch.int64, device="cpu")
    else:
        positions = (
            torch.arange(count, device="cpu")
            .mul_(tensor.numel() - 1)
            .div_(count - 1, rounding_mode="floor")
        )
    return tensor.take(positions)
