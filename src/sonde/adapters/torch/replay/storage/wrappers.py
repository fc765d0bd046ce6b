"""Modules around a network that belong to one process: compiled code, and DistributedDataParallel.

A captured step has the network inside. In another process there are no other ranks, and the code is
compiled anew.
"""

from __future__ import annotations

from torch import nn

from sonde.adapters.torch.eager.naming.wrappers import wrapped

COMPILED = "OptimizedModule"
_REMOVED = (COMPILED, "DistributedDataParallel", "DataParallel")


def unwrapped(module: nn.Module) -> tuple[nn.Module, list[str]]:
    """The network inside its wrappers, and the names of their classes, the outermost first."""
    names = []
    while (inner := _inside(module)) is not None:
        names.append(type(module).__name__)
        module = inner
    return module, names


def inner_name(name: str, module: nn.Module) -> str:
    """The name of a submodule of ``module`` as the network inside its wrappers has it."""
    while (inner := _inside(module)) is not None:
        attribute = next(key for key, each in module.named_children() if each is inner)
        name = name.removeprefix(attribute).removeprefix(".")
        module = inner
    return name


def outer_name(name: str, module: nn.Module) -> str:
    """The name in ``module`` of a submodule that the network inside its wrappers calls ``name``."""
    prefix = []
    while (inner := _inside(module)) is not None:
        prefix += [key for key, each in module.named_children() if each is inner]
        module = inner
    return ".".join(filter(None, (*prefix, name)))


def _inside(module: nn.Module) -> nn.Module | None:
    return wrapped(module) if type(module).__name__ in _REMOVED else None
