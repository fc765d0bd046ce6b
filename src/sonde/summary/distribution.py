"""The distribution of a tensor's values, computed where the tensor is."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

SMALLEST_EDGE = 1e-12
BIN_GROWTH = 1.1
"""Bins grow by a tenth away from 0, as TensorFlow's do."""


def as_numbers(values: Tensor) -> Tensor:
    """The values as a vector of float32 or float64; complex numbers as their absolute values."""
    flat = values.detach().reshape(-1)
    if flat.is_complex():
        flat = flat.abs()
    if flat.dtype in (torch.float32, torch.float64):
        return flat
    return flat.float() if flat.is_floating_point() else flat.double()


def distribution(values: Tensor) -> dict[str, Any]:
    """TensorBoard's histogram of a vector of at least one value, all finite.

    Every value is in a bin, the upper edge belonging to it. Sums are in float64 and may be
    infinite.
    """
    low, high = float(values.min()), float(values.max())
    edges = torch.from_numpy(_edges(values, low, high)).to(values.dtype)
    counts = torch.bincount(
        torch.bucketize(values, edges.to(values.device)), minlength=len(edges)
    ).cpu()
    used = counts.nonzero().reshape(-1)
    # One empty bin on the left says where the first one begins.
    kept = slice(max(0, int(used[0]) - 1), int(used[-1]) + 1)
    wide = values.double()
    return {
        "min": low,
        "max": high,
        "num": values.numel(),
        "sum": float(wide.sum()),
        "sum_squares": float((wide * wide).sum()),
        "bucket_limits": edges[kept].tolist(),
        "bucket_counts": counts[kept].tolist(),
    }


def _edges(values: Tensor, low: float, high: float) -> np.ndarray:
    """Upper edges of the bins, rising, over the sizes that occur; the last is the largest value."""
    sizes = values.abs()
    smallest = float(sizes.where(sizes > 0, torch.full_like(sizes, math.inf)).min())
    largest = max(abs(low), abs(high))
    if largest == 0:
        return np.array([-SMALLEST_EDGE, 0.0])
    first = max(smallest, SMALLEST_EDGE)
    ratio = max(0.0, math.log(largest) - math.log(first))
    count = 2 + math.ceil(ratio / math.log(BIN_GROWTH))
    limit = float(torch.finfo(values.dtype).max)
    with np.errstate(over="ignore"):
        sides = np.minimum(first * BIN_GROWTH ** np.arange(count), limit)
    inside = np.concatenate([-sides[::-1], [0.0], sides])
    dtype = np.float32 if values.dtype == torch.float32 else np.float64
    return np.unique(np.append(inside[inside < high], high).astype(dtype))
