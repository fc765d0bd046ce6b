"""Counts the elements of a tensor that a lazy module may hold."""

from __future__ import annotations

import torch
from torch.nn.parameter import is_lazy


def element_count(tensor: torch.Tensor) -> int:
    """How many elements a tensor has; 0 for a parameter or buffer of a lazy module that has not run
    yet, which raises if it is asked."""
    return 0 if is_lazy(tensor) else tensor.numel()
