"""What ``sonde.set_dump`` takes: modules, classes of modules, functions of torch, patterns."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import torch
from torch import nn

from sonde.adapters.torch.adapter import TorchAdapter
from sonde.adapters.torch.eager.naming.scopes import plain_scope
from sonde.capture.requests import named
from sonde.core.errors import UsageError
from sonde.core.graph import OpNode
from sonde.core.operators.kinds import is_composed
from sonde.core.operators.patterns import OpPattern

DumpTarget = nn.Module | type[nn.Module] | Callable[..., object] | str


def pattern_of(target: DumpTarget) -> OpPattern:
    """The pattern of a target; that of a module only names it, for messages."""
    if isinstance(target, str):
        return OpPattern.parse(target)
    if isinstance(target, nn.Module):
        return OpPattern(f"this {type(target).__name__}")
    if isinstance(target, type) and issubclass(target, nn.Module | torch.optim.Optimizer):
        return OpPattern.of_class(target.__name__)
    if isinstance(target, type) or not _is_of_torch(target):
        raise UsageError(
            "set_dump takes a module, a class of modules or optimizers, a function of torch or a "
            "pattern, not "
            f"{_described(target)}",
            slug="set-dump-target",
        )
    function = target.__name__.partition(".")[0]
    if not is_composed(function) and not hasattr(torch.ops.aten, function):
        raise UsageError(
            f"set_dump: {function} is not one op of torch but several; name them, or the module "
            "that calls it",
            slug="set-dump-target",
        )
    return OpPattern.of_function(function)


def target_key(target: DumpTarget) -> Hashable:
    """Equal for targets that cover the same ops. The target has to be kept as long as its key."""
    return target if isinstance(target, str) else id(target)


def covering(
    adapter: TorchAdapter, target: DumpTarget, pattern: OpPattern
) -> Callable[[OpNode], bool]:
    """Whether an op belongs to a module, or is one that the pattern names.

    The module's scope is looked up at every call: it is known once the module has run.
    """
    if not isinstance(target, nn.Module):
        return lambda node: pattern.matches(*named(node))

    def covers(node: OpNode) -> bool:
        name = adapter.scope_name(target)
        scope = plain_scope(node.scope)
        return name is not None and (scope == name or scope.startswith(f"{name}/"))

    return covers


def _described(target: object) -> str:
    """What the message calls a target that cannot be one; for an optimizer, what to write."""
    kind = target if isinstance(target, type) else type(target)
    if issubclass(kind, torch.optim.Optimizer):
        name = kind.__name__
        return f"the optimizer {name}; the pattern {name!r} selects its ops: set_dump({name!r})"
    hint = "; call it once for each" if isinstance(target, list | tuple) else ""
    return f"{kind.__name__}{hint}"


def _is_of_torch(target: object) -> bool:
    """Whether ``target`` is a function of torch, a method of its tensors or an op of ATen."""
    if not callable(target) or not isinstance(getattr(target, "__name__", None), str):
        return False
    places = (target, getattr(target, "__self__", None), getattr(target, "__objclass__", None))
    for place in places:
        module = getattr(place, "__module__", None) or getattr(place, "__name__", None)
        if isinstance(module, str) and module.partition(".")[0] == "torch":
            return True
    return False
