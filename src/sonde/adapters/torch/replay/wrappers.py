"""Modules around a network that belong to one process: compiled code, and DistributedDataParallel.

A captured step has the network inside. In another process there are no other ranks, and the code is
compiled anew.
"""

from __future__ import annotations

from typing import Any

from torch import nn


def unwrapped(module: nn.Module) -> tuple[nn.Module, str]:
    """The network inside its wrappers, and the names of their classes, the outermost first."""
    names = []
    while (inner := _inside(module)) is not None:
        names.append(type(module).__name__)
        module = inner
    return module, " ".join(names)


def _inside(module: nn.Module) -> nn.Module | None:
    if type(module).__module__.startswith("torch."):
        attribute = {"OptimizedModule": "_orig_mod", "DistributedDataParallel": "module"}
        found: Any = getattr(module, attribute.get(type(module).__name__, ""), None)
        return found if isinstance(found, nn.Module) else None
    return None
