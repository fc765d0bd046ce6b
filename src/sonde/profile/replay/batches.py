"""Runs the network on a larger batch, to see whether a sample takes less time then."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn

from sonde.profile.record.object_tracking import SeenCall
from sonde.profile.record.stopwatch import compare

_WRAPPER = "DistributedDataParallel"
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def replay_batch(
    call: SeenCall, factor: int, *, budget_seconds: float = 1.5
) -> tuple[int, float, float] | None:
    """The batch size, and seconds per sample as it is and with a batch ``factor`` times as large.

    Runs forward and backward of a copy of the module, without its hooks. None if the module cannot
    be copied or called with such a batch.
    """
    size = _batch_size(call.args)
    if size is None or size == 0:
        return None
    try:
        module = _copied(call.module)
        larger = tuple(_repeated(each, size, factor) for each in call.args)
        with torch.random.fork_rng(devices=[]):
            taken = compare(
                {
                    "small": lambda: _train(module, call.args),
                    "large": lambda: _train(module, larger),
                },
                budget_seconds=budget_seconds,
            )
    except Exception:  # The user's module may not support being called like this.
        return None
    return size, taken["small"] / size, taken["large"] / (size * factor)


def _copied(module: nn.Module) -> nn.Module:
    if type(module).__name__ == _WRAPPER:
        module = module.module  # type: ignore[assignment]
    copied = copy.deepcopy(module)
    for each in copied.modules():
        for name in _HOOKS:
            getattr(each, name).clear()
    return copied


def _train(module: nn.Module, args: tuple[Any, ...]) -> None:
    with torch.enable_grad():
        total = _sum(module(*args))
        if total is not None and total.requires_grad:
            torch.autograd.backward(total)


def _sum(value: Any) -> torch.Tensor | None:
    """A scalar that depends on all floating-point tensors in ``value``."""
    if isinstance(value, torch.Tensor):
        return value.float().mean() if value.is_floating_point() else None
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        sums = [each for each in map(_sum, value) if each is not None]
        return torch.stack(sums).sum() if sums else None
    return None


def _batch_size(args: tuple[Any, ...]) -> int | None:
    sizes = {each.shape[0] for each in args if isinstance(each, torch.Tensor) and each.dim() > 0}
    return sizes.pop() if len(sizes) == 1 else None


def _repeated(value: Any, size: int, factor: int) -> Any:
    if isinstance(value, torch.Tensor) and value.dim() > 0 and value.shape[0] == size:
        return value.detach().repeat(factor, *[1] * (value.dim() - 1))
    return value
