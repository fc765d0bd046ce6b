"""Modules and classes of torch that wrap others, such as DDP, and leave no trace in names."""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn

_WRAPPERS: dict[str, str] = {
    # class -> the attribute that holds the wrapped module; the wrapper itself gets no name, so
    # that names are the same with and without it.
    "DistributedDataParallel": "module",
    "DataParallel": "module",
    "OptimizedModule": "_orig_mod",
    "FullyShardedDataParallel": "_fsdp_wrapped_module",
    "CheckpointWrapper": "_checkpoint_wrapped_module",
}


_MADE_BY = ("torch.distributed.", "torch.nn.utils.parametrize")
_PREFIXES = ("FSDP", "Replicate", "DDP", "Parametrized")
"""``fully_shard`` and similar functions give a module a class that they make of its own, called
``FSDPLinear``, for example."""


def class_name(module: nn.Module) -> str:
    """The name of the class that the program gave the module inside all wrappers."""
    kind = type(unwrap(module))
    while (own := _own_class(kind)) is not None:
        kind = own
    return kind.__name__


def _own_class(kind: type) -> type | None:
    """The class that torch has made ``kind`` of, or None if it has not."""
    if not kind.__module__.startswith(_MADE_BY):
        return None
    names = {kind.__name__.removeprefix(prefix) for prefix in _PREFIXES} - {kind.__name__}
    return next((base for base in kind.__bases__ if base.__name__ in names), None)


def wrapped(module: nn.Module) -> nn.Module | None:
    """The module inside a wrapper such as DDP, or None if ``module`` is no wrapper."""
    attribute = _WRAPPERS.get(type(module).__name__)
    if attribute is None or not type(module).__module__.startswith("torch."):
        return None
    inner = module._modules.get(attribute)
    return inner if isinstance(inner, nn.Module) else None


def unwrap(module: nn.Module) -> nn.Module:
    while (inner := wrapped(module)) is not None:
        module = inner
    return module


def layers_of(module: nn.Module) -> Iterator[nn.Module]:
    """The modules inside a wrapper, from the outside inwards."""
    while (inner := wrapped(module)) is not None:
        yield inner
        module = inner
