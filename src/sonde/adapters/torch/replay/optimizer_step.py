"""Names the optimizer where its step made weights non-finite from finite weights and gradients."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch

from sonde.adapters.torch import private
from sonde.core.finding import Finding


def find_bad_update(
    optimizer: torch.optim.Optimizer, names: Mapping[int, str], *, rank: int | None = None
) -> Finding | None:
    """The first parameter that is not finite although its gradient is, after ``optimizer`` stepped;
    None if there is none. The weights must have been finite before.

    ``names``: the names of parameters, by their ids. Call it before gradients are set to None.
    """
    with private.unobserved():
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                gradient = parameter.grad
                if _is_finite(parameter) or gradient is None or not _is_finite(gradient):
                    continue
                name = names.get(id(parameter), "")
                kind = type(optimizer).__name__
                return Finding(
                    "non-finite-update",
                    "error",
                    f"{name or 'a weight'} became NaN or Inf in the step of {kind}; its gradient "
                    "was finite",
                    status="established",
                    parameter=name or None,
                    rank=rank,
                    evidence={
                        "optimizer": kind,
                        "non_finite": int((~torch.isfinite(parameter)).sum()),
                        "elements": parameter.numel(),
                        "settings": _numbers(group.items()),
                        "bad_state": [
                            key
                            for key, value in optimizer.state.get(parameter, {}).items()
                            if isinstance(value, torch.Tensor) and not _is_finite(value)
                        ],
                    },
                )
    return None


def _is_finite(tensor: torch.Tensor) -> bool:
    values = tensor.coalesce().values() if tensor.layout is torch.sparse_coo else tensor
    return bool(torch.isfinite(values).all())


def _numbers(items: Iterable[tuple[str, Any]]) -> dict[str, float]:
    """The settings that are numbers: a learning rate may be too large, or not finite itself."""
    return {
        key: float(value)
        for key, value in items
        if isinstance(value, (int, float, torch.Tensor)) and not isinstance(value, bool)
    }
