"""Where in the module tree an op runs: scope names as MindSpore writes them.

``Default/network-Net/encoder-Sequential/0-Linear``: each part is the attribute's name and the
class. The path is the module's place in the tree, not the chain of calls, so that a module has
one scope however it is called.
"""

from __future__ import annotations

import weakref
from collections.abc import Container, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from sonde.adapters.torch import private
from sonde.core.graph import GRADIENTS, Phase

ROOT = "Default"
_WRAPPERS: dict[str, str] = {
    # class -> the attribute that holds the wrapped module; the wrapper itself gets no name, so
    # that names are the same with and without it.
    "DistributedDataParallel": "module",
    "DataParallel": "module",
    "OptimizedModule": "_orig_mod",
    "FullyShardedDataParallel": "_fsdp_wrapped_module",
    "CheckpointWrapper": "_checkpoint_wrapped_module",
}


@dataclass(slots=True, eq=False)
class OpScope:
    """An interned scope: compared by identity on the hot path."""

    name: str
    phase: Phase = "forward"


RECOMPUTED = "recompute_"


def plain_scope(scope: str) -> str:
    """The forward scope an op belongs to, whichever phase it ran in."""
    return scope.removeprefix(GRADIENTS).removeprefix(RECOMPUTED)


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


class ScopeRegistry:
    """OpScope names of every module met.

    Used from the training thread only. Modules are known by identity and referenced weakly, so that
    no model is kept alive.
    """

    def __init__(self) -> None:
        self._scopes: dict[str, OpScope] = {}
        self._modules: dict[int, _Known] = {}
        self._roots: dict[str, weakref.ref[nn.Module]] = {}
        self.default = self.scope(ROOT)

    def roots(self) -> Iterator[tuple[str, nn.Module]]:
        """The outermost modules that were called, by their scope name, that are still alive."""
        for name, reference in self._roots.items():
            module = reference()
            if module is not None:
                yield f"{ROOT}/{name}", module

    def scope(self, name: str, phase: Phase = "forward") -> OpScope:
        found = self._scopes.get(name)
        if found is None:
            found = self._scopes[name] = OpScope(name, phase)
        return found

    def backward_of(self, name: str) -> OpScope:
        """The scope of backward ops that ops in the scope ``name`` cause."""
        base = name.removeprefix(RECOMPUTED)
        return self.scope(base if base.startswith(GRADIENTS) else GRADIENTS + base, "backward")

    def of_module(self, module: nn.Module, caller: nn.Module | None) -> OpScope:
        """The scope of ``module``, called from inside ``caller`` (None: from outside any)."""
        known = self._modules.get(id(module))
        if known is not None and known.module() is module:
            return known.scope
        if caller is None:
            self._add_root(module)
        else:
            self._add_unregistered(module, caller)
        return self._modules[id(module)].scope

    def name_of(self, module: nn.Module | str) -> str | None:
        """The scope of a known module, or of the module at a path of a tree; None if unknown."""
        if isinstance(module, str):
            for known in self._modules.values():
                if known.path == module and known.module() is not None:
                    return known.scope.name
            return None
        found = self._modules.get(id(module))
        return found.scope.name if found is not None and found.module() is module else None

    def scope_of_path(self, root: nn.Module, path: str) -> OpScope:
        """The scope of the submodule at ``path`` of ``root``, or the root's own."""
        module = root
        for name in path.split(".") if path else ():
            # A ScriptModule has no ``get_submodule``, and its table no ``get``.
            inner = module._modules[name] if name in module._modules else None  # noqa: SIM401
            if inner is None:
                module = root
                break
            module = inner
        known = self._modules.get(id(module))
        return known.scope if known is not None else self.default

    def optimizer(self, optimizer: torch.optim.Optimizer) -> OpScope:
        return self.scope(f"{ROOT}/optimizer-{type(optimizer).__name__}", "optimizer")

    def _add_root(self, module: nn.Module) -> None:
        core = unwrap(module)
        kind = "loss" if isinstance(core, private.LossModule) else "network"
        name = _free_name(f"{kind}-{_label(core)}", self._roots)
        self._roots[name] = weakref.ref(core)
        self._add_tree(module, f"{ROOT}/{name}", "", replace=True)

    def _add_tree(self, module: nn.Module, name: str, path: str, *, replace: bool) -> None:
        """Name ``module`` and all below it; a module reached twice keeps its first name.

        ``replace``: rename modules that an earlier, smaller tree named, such as a submodule that
        was called by itself before its owner.
        """
        waiting = [(module, name, path)]
        seen: set[int] = set()
        while waiting:
            here, name, path = waiting.pop()
            known = self._modules.get(id(here))
            is_known = known is not None and known.module() is here
            if id(here) in seen or (is_known and not replace):
                continue
            seen.add(id(here))
            self._modules[id(here)] = _Known(weakref.ref(here), self.scope(name), path)
            inner = wrapped(here)
            if inner is not None:
                waiting.append((inner, name, path))
                continue
            children = [
                (
                    child,
                    f"{name}/{attribute}-{_label(child)}",
                    _join(path, attribute),
                )
                for attribute, child in here._modules.items()
                if child is not None
            ]
            waiting.extend(reversed(children))

    def _add_unregistered(self, module: nn.Module, caller: nn.Module) -> None:
        """Name a module that was not in the tree when its root was named.

        It was added to the tree later, or its caller holds it in a plain list, a dict, a closure.
        """
        for name, root in self.roots():
            if any(candidate is module for candidate in root.modules()):
                self._add_tree(root, name, "", replace=True)
                return
        parent = self._modules.get(id(caller))
        scope, path = (parent.scope.name, parent.path) if parent else (ROOT, "")
        attribute = _attribute_holding(caller, module) or type(module).__name__.lower()
        taken = {known.scope.name for known in self._modules.values()}
        name = _free_name(f"{scope}/{attribute}-{_label(module)}", taken)
        self._add_tree(module, name, _join(path, attribute), replace=False)


@dataclass(frozen=True, slots=True)
class _Known:
    module: weakref.ref[nn.Module]
    scope: OpScope
    path: str


def _label(module: nn.Module) -> str:
    return type(unwrap(module)).__name__


def _join(path: str, attribute: str) -> str:
    return f"{path}.{attribute}" if path else attribute


def _free_name(name: str, taken: Container[str]) -> str:
    if name not in taken:
        return name
    suffix = 1
    while f"{name}_{suffix}" in taken:
        suffix += 1
    return f"{name}_{suffix}"


def _attribute_holding(owner: nn.Module, module: nn.Module) -> str | None:
    """``layers_3`` when ``owner.layers[3] is module``, also in dicts and tuples."""
    for attribute, value in owner.__dict__.items():
        if value is module:
            return attribute
        for key, item in _items(value):
            if item is module:
                return f"{attribute}_{key}"
    return None


def _items(value: Any) -> list[tuple[Any, Any]]:
    if isinstance(value, (list, tuple)):
        return list(enumerate(value))
    if isinstance(value, dict):
        return list(value.items())
    return []
