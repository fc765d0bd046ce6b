"""Applies the gradients of each way with a copy of the optimizer and of its parameters."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch

Gradients = Mapping[torch.Tensor, torch.Tensor]
"""Gradients by the parameter they belong to."""

_PROPORTIONAL = 1e-2


def updated(
    optimizer: torch.optim.Optimizer, eager: Gradients, way: Gradients, *, wide: bool = False
) -> dict[torch.Tensor, torch.Tensor]:
    """The parameters after a step with the gradients of ``way``, by the parameter as it is now.

    Between backward and the optimizer a program may clip, unscale or accumulate gradients. Its
    ``.grad`` is compared with the ``eager`` gradients: a common factor is applied to those of
    ``way`` too, anything else is kept and the difference of the ways added to it.
    """
    twin = copy.deepcopy(optimizer)
    pairs = [
        (theirs, ours)
        for group, copied in zip(optimizer.param_groups, twin.param_groups, strict=True)
        for theirs, ours in zip(group["params"], copied["params"], strict=True)
    ]
    for theirs, ours in pairs:
        gradient = theirs.grad
        if gradient is not None and theirs in way and theirs in eager:
            gradient = _as_the_program_has_it(gradient, eager[theirs], way[theirs])
        if wide:
            ours.data = _wide(ours.data)
            gradient = None if gradient is None else _wide(gradient)
            _widen_state(twin.state.get(ours, {}))
        ours.grad = None if gradient is None else gradient.detach().to(ours.dtype)
    with torch.no_grad():
        twin.step()
    return {theirs: ours.detach() for theirs, ours in pairs if theirs in way}


def _as_the_program_has_it(
    actual: torch.Tensor, eager: torch.Tensor, way: torch.Tensor
) -> torch.Tensor:
    wide, base = actual.to(torch.float64), eager.to(torch.float64)
    square = float((base * base).sum())
    factor = float((wide * base).sum()) / square if square else 1.0
    off = float((wide - factor * base).norm())
    if off <= _PROPORTIONAL * float(wide.norm()):
        return factor * way.to(torch.float64)
    return wide + (way.to(torch.float64) - base)


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.float64) if tensor.is_floating_point() else tensor


def _widen_state(state: dict[str, Any]) -> None:
    for name, value in state.items():
        if isinstance(value, torch.Tensor) and name != "step":
            state[name] = _wide(value)
