"""Which modules can run once more, and how everything is put back afterwards."""

from __future__ import annotations

import contextlib
import io
import random
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import nn

from sonde.adapters.torch import private

_PLAIN = (bool, int, float, str, type(None), tuple)


def can_probe(module: nn.Module) -> bool:
    """Whether every hook in ``module`` is torch's own, and it spans no ranks."""
    if isinstance(module, nn.parallel.DistributedDataParallel):
        return False
    for each in module.modules():
        if type(each).__name__ in ("OptimizedModule", "FullyShardedDataParallel"):
            return False
        for hook in (*each._forward_hooks.values(), *each._forward_pre_hooks.values()):
            owner = getattr(hook, "__module__", "") or type(hook).__module__
            if not owner.startswith("torch."):
                return False
    return True


@contextlib.contextmanager
def put_back(root: nn.Module) -> Iterator[None]:
    """Run the block in eval mode, without gradients and output, and restore everything after it."""
    modules = list(root.modules())
    flags = [each.training for each in modules]
    buffers = [(each._buffers, dict(each._buffers)) for each in modules]
    _lend_copies(buffers)
    plain = [_attributes(each) for each in modules]
    filled = [
        (value, list(value.items()) if isinstance(value, dict) else list(value))
        for each in modules
        for key, value in vars(each).items()
        if not key.startswith("_") and isinstance(value, (list, dict, set, deque))
    ]
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    has_cuda = torch.cuda.is_available()
    cuda = torch.cuda.get_rng_state_all() if has_cuda else None
    silent = io.StringIO()
    is_fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # Training takes the other path.
    for each in modules:
        each.training = False
    try:
        with (
            contextlib.redirect_stdout(silent),
            contextlib.redirect_stderr(silent),
            _without_global_hooks(),
        ):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(is_fast)
        for each, flag, kept in zip(modules, flags, plain, strict=True):
            vars(each).update(kept)
            each.training = flag
        for held, before in buffers:
            held.clear()
            held.update(before)
        for container, items in filled:
            container.clear()
            container.extend(items) if hasattr(container, "extend") else container.update(items)
        random.setstate(states[0])
        np.random.set_state(states[1])
        torch.set_rng_state(states[2])
        if cuda is not None:
            torch.cuda.set_rng_state_all(cuda)


def _lend_copies(
    buffers: list[tuple[dict[str, torch.Tensor | None], dict[str, torch.Tensor | None]]],
) -> None:
    """Put copies in the place of buffers. A write to a buffer itself, even one that puts its value
    back, would end a backward pass that needs it: autograd compares versions."""
    copies: dict[int, torch.Tensor] = {}
    for held, before in buffers:
        for name, buffer in before.items():
            if buffer is not None:
                held[name] = copies.setdefault(id(buffer), buffer.clone())


@contextlib.contextmanager
def _without_global_hooks() -> Iterator[None]:
    """Remove the hooks on all modules in this block: those of a dump or a guard, which must not see
    these calls, and those of the program."""
    kept = [(hooks, dict(hooks)) for hooks in private.module_hooks()]
    for hooks, _ in kept:
        hooks.clear()
    try:
        yield
    finally:
        for hooks, before in kept:
            hooks.clear()
            hooks.update(before)


def _attributes(module: nn.Module) -> dict[str, Any]:
    """Attributes of ``module`` that are plain values, or tensors that are neither parameter nor
    buffer."""
    kept = (*_PLAIN, torch.Tensor)
    return {key: value for key, value in vars(module).items() if isinstance(value, kept)}
