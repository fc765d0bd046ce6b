"""The picture in a batch, if there is one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

CHANNELS = (1, 3, 4)
SMALLEST_SIDE = 4


def first_picture(element: Any) -> Tensor | None:
    """The first sample of a batch's first tensor, as uint8 ``(C, H, W)``, if it is a picture.

    A picture is ``(N, C, H, W)`` or ``(N, H, W, C)`` with 1, 3 or 4 channels. Bytes are shown as
    they are, floats from 0 to 1 times 255, other numbers stretched from their smallest to their
    largest; NaN and Inf are shown black.
    """
    tensor = _first_tensor(element)
    if tensor is None or tensor.ndim != 4 or tensor.shape[0] == 0 or tensor.is_complex():
        return None
    sample = tensor[0].detach().cpu()
    if sample.shape[0] not in CHANNELS and sample.shape[-1] in CHANNELS:
        sample = sample.movedim(-1, 0)
    if sample.shape[0] not in CHANNELS or min(sample.shape[1:]) < SMALLEST_SIDE:
        return None
    return sample if sample.dtype == torch.uint8 else _as_bytes(sample.float())


def _as_bytes(sample: Tensor) -> Tensor:
    finite = torch.isfinite(sample)
    if not bool(finite.any()):
        return torch.zeros(sample.shape, dtype=torch.uint8)
    low, high = sample[finite].min(), sample[finite].max()
    if low < 0 or high > 1:
        sample = (sample - low) / (high - low).clamp(min=torch.finfo(torch.float32).tiny)
    shown = (sample.where(finite, torch.zeros(())) * 255).round().clamp(0, 255)
    return shown.to(torch.uint8)


def _first_tensor(element: Any) -> Tensor | None:
    if isinstance(element, Tensor):
        return element
    if isinstance(element, Mapping):
        element = list(element.values())
    if isinstance(element, (tuple, list)):
        return next((one for one in element if isinstance(one, Tensor)), None)
    return None
