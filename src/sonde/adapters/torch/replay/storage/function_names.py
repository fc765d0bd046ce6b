"""Names under which functions of torch are found again in another process."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import get_overridable_functions, resolve_name

from sonde.core.interruption import pass_on


@functools.cache
def _overridable() -> dict[int, tuple[Any, str]]:
    """Names of the functions that torch reports to modes, by id."""
    found: dict[int, tuple[Any, str]] = {}
    for functions in get_overridable_functions().values():
        for function in functions:
            name = resolve_name(function)
            if name is not None and _at(name) is function:
                found[id(function)] = (function, name)
    return found


def function_name(function: Callable[..., Any]) -> str | None:
    """``torch.nn.functional.cross_entropy``; None if no name of torch leads to the function."""
    known = _overridable().get(id(function))
    if known is not None:
        return known[1]
    module = str(getattr(function, "__module__", "") or "torch")
    name = getattr(function, "__qualname__", None) or getattr(function, "__name__", None)
    for path in (f"{module}.{name}", f"torch.{name}", f"torch.Tensor.{name}"):
        if path.startswith("torch.") and _at(path) == function:
            return path
    if isinstance(function, torch._ops.OpOverload):
        path = f"torch.ops.{function.namespace}.{function._opname}.{function._overloadname}"
        return path if _at(path) is function else None
    owner, attribute = getattr(function, "__self__", None), getattr(function, "__name__", "")
    path = f"torch.Tensor.{getattr(owner, '__name__', '')}.{attribute}"
    return path if owner is not None and _at(path) == function else None


def function_at(path: str) -> Callable[..., Any] | None:
    """The function of a name; None if this version of torch has none there."""
    found = _at(path) if path.startswith("torch.") else None
    return found if callable(found) else None


def _at(path: str) -> Any:
    found: Any = torch
    try:
        for part in path.split(".")[1:]:
            found = getattr(found, part)
    except (AttributeError, RuntimeError, ImportError) as error:
        pass_on(error)
        return None
    return found
