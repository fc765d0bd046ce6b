"""Changes the weights of a program in their last bits, to learn how rounding errors grow in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook

from sonde.adapters.torch import private


@contextmanager
def perturbed_weights() -> Iterator[None]:
    """While the context lasts, change the parameters of each network by one or two units in the
    last place, up and down in turn, before it runs for the first time."""
    known: WeakSet[nn.Module] = WeakSet()
    changed: set[int] = set()

    def perturb(module: nn.Module, _arguments: Any) -> None:
        if module in known:
            return
        known.update(module.modules())
        with private.without_modes(), torch.no_grad():
            for parameter in module.parameters():
                if id(parameter) not in changed and parameter.is_floating_point():
                    changed.add(id(parameter))
                    _change(getattr(parameter, "_local_tensor", parameter).data)

    handle = register_module_forward_pre_hook(perturb)
    try:
        yield
    finally:
        handle.remove()


def _change(values: torch.Tensor) -> None:
    eps = torch.finfo(values.dtype).eps
    factors = torch.full_like(values, 1 + eps).reshape(-1)
    factors[1::2] = 1 - eps
    values.mul_(factors.reshape(values.shape))
