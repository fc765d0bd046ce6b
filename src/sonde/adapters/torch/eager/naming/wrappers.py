"""Modules of torch that wrap another one, such as DDP, and leave no trace in names."""

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
