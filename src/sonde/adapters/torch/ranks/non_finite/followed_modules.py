"""Which modules are followed while an outermost one runs, their names and their lines."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from typing import Any

from torch import nn

from sonde.adapters.torch.calling_line import calling_line, is_program


def needs_other_ranks(module: nn.Module) -> bool:
    """Whether calls of ``module`` exchange data with other ranks, other than DDP's buffers."""
    return any(hasattr(each, "device_mesh") for each in module.parameters()) or any(
        isinstance(each, nn.SyncBatchNorm) for each in module.modules()
    )


def is_apart(module: nn.Module) -> bool:
    """Whether a call of ``module`` does more than its ``forward``: it is never executed again
    inside another one."""
    has_hooks = bool(module._forward_pre_hooks or module._forward_hooks)
    return has_hooks or isinstance(module, nn.SyncBatchNorm)


def own_parts(module: nn.Module, apart: set[int]) -> list[nn.Module]:
    """``module`` and the modules inside it that are not in one of ``apart``."""
    found = [module]
    for inner in module.children():
        if id(inner) not in apart:
            found += own_parts(inner, apart)
    return found


def is_compiled(module: nn.Module) -> bool:
    """Whether a hook would make the compiler compile again."""
    return any(
        hasattr(each, "_orig_mod") or getattr(each, "_compiled_call_impl", None) is not None
        for each in module.modules()
    )


def module_text(name: str, module: nn.Module) -> str:
    """The module as a user knows it: ``layers.3.norm (RMSNorm)``."""
    kind = type(module).__name__.removeprefix("FSDP")
    return f"{name} ({kind})" if name else kind


def line_of_module(module: nn.Module) -> str:
    """Where the program defines what ``module`` computes; of modules of libraries, where it calls
    them."""
    return _own_line(type(module).forward) or calling_line()


@functools.lru_cache(maxsize=1024)
def _own_line(forward: Callable[..., Any]) -> str:
    code = getattr(inspect.unwrap(forward), "__code__", None)
    if code is None or not is_program(code.co_filename):
        return ""
    return f"{os.path.basename(code.co_filename)}:{code.co_firstlineno}"
