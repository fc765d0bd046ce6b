"""Where in the module tree an op runs: scope names as MindSpore writes them.

``Default/network-Net/encoder-Sequential/0-Linear``: each part is the attribute's name and the
class. The path is the module's place in the tree, not the chain of calls, so that a module has
one scope however it is called. The first part is the variable that holds the network (see
``holders``), and modules that are built anew in every step are named by the place that calls them
(see ``built_modules``).
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import torch
from torch import nn

from sonde.adapters.torch import private
from sonde.adapters.torch.eager.naming.built_modules import (
    BuiltModules,
    ModuleNames,
    Place,
    Slot,
    Turn,
    place_of,
)
from sonde.adapters.torch.eager.naming.holders import (
    Holder,
    attribute_holding,
    contains,
    find_holder,
    instance_name,
)
from sonde.adapters.torch.eager.naming.wrappers import class_name, layers_of, unwrap, wrapped
from sonde.core.graph import GRADIENTS, Phase
from sonde.core.mindspore.program_settings import PROGRAM

ROOT = "Default"


@dataclass(slots=True, eq=False)
class OpScope:
    """An interned scope: compared by identity on the hot path."""

    name: str
    phase: Phase = "forward"


RECOMPUTED = "recompute_"


def plain_scope(scope: str) -> str:
    """The forward scope an op belongs to, whichever phase it ran in."""
    return scope.removeprefix(GRADIENTS).removeprefix(RECOMPUTED)


class _ModuleReference(weakref.ref[nn.Module]):
    """A reference to a module, with its id and its name."""

    __slots__ = ("key", "name")
    key: int
    name: str


@dataclass(slots=True, eq=False)
class _Known:
    """A module that has a name.

    ``is_firm``: the name stays when a larger tree is met that the module is in. ``slot``: where its
    name comes from if it has no place in a tree. ``turn``: the modules built inside its last call.
    """

    module: weakref.ref[nn.Module]
    scope: OpScope
    path: str
    is_firm: bool
    slot: Slot | None = None
    turn: Turn = field(default_factory=dict)


class ScopeRegistry:
    """OpScope names of every module met.

    Used from the training thread only. Modules are known by identity and referenced weakly, so that
    no model is kept alive; the name of a module that died is free for the next one that is named.
    """

    def __init__(self) -> None:
        self._scopes: dict[str, OpScope] = {}
        self._modules: dict[int, _Known] = {}
        # References whose modules died. Their callback is a function of C, in which no signal
        # handler of the program runs: Python would ignore what it raises.
        self._dead: list[weakref.ref[nn.Module]] = []
        self._names = ModuleNames()
        self._roots: dict[str, weakref.ref[nn.Module]] = {}
        self._built = BuiltModules()
        self._turn: Turn = {}
        self.default = self.scope(ROOT)

    def begin_step(self) -> None:
        """Begin to count the modules that the program builds outside of others."""
        self._turn = {}

    def roots(self) -> Iterator[tuple[str, nn.Module]]:
        """The outermost modules that were called, by their scope name, that are still alive."""
        for name, reference in list(self._roots.items()):
            module = reference()
            if module is not None:
                yield name, module

    def add_root(self, name: str, module: nn.Module) -> None:
        """Name an outermost module before it is called, and all below it."""
        self._add_tree(module, name, "", is_firm=True)
        self._add_root_name(name, module)

    def scope(self, name: str, phase: Phase = "forward") -> OpScope:
        found = self._scopes.get(name)
        if found is None:
            found = self._scopes[name] = OpScope(name, phase)
        return found

    def backward_of(self, name: str) -> OpScope:
        """The scope of backward ops that ops in the scope ``name`` cause."""
        base = name.removeprefix(RECOMPUTED)
        return self.scope(base if base.startswith(GRADIENTS) else GRADIENTS + base, "backward")

    def enter(
        self, module: nn.Module, caller: nn.Module | None, frame: FrameType | None = None
    ) -> OpScope:
        """The scope of ``module``, which begins to run; see `of_module`."""
        known = self._known(module) or self._add(module, caller, frame or sys._getframe(1))
        if known.turn:
            known.turn = {}
        slot = known.slot
        if slot is not None and slot.turn is not self._turn_of(caller):
            slot.is_lasting = True
        return known.scope

    def of_module(
        self,
        module: nn.Module,
        caller: nn.Module | None,
        frame: FrameType | None = None,
    ) -> OpScope:
        """The scope of ``module``, called from inside ``caller`` (None: from outside any) by
        ``frame`` or a frame that called it (None: the frame that calls this method)."""
        known = self._known(module) or self._add(module, caller, frame or sys._getframe(1))
        return known.scope

    def name_of(self, module: nn.Module) -> str | None:
        """The scope of a known module; None if it is unknown."""
        found = self._known(module)
        return found.scope.name if found is not None else None

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
        known = self._known(module)
        return known.scope if known is not None else self.default

    def optimizer(self, optimizer: torch.optim.Optimizer) -> OpScope:
        return self.scope(f"{ROOT}/{_part('optimizer', optimizer)}", "optimizer")

    def _known(self, module: nn.Module) -> _Known | None:
        known = self._modules.get(id(module))
        return known if known is not None and known.module() is module else None

    def _turn_of(self, caller: nn.Module | None) -> Turn:
        known = self._known(caller) if caller is not None else None
        return self._turn if known is None else known.turn

    # ---------------------------------------------------------------- naming

    def _add(self, module: nn.Module, caller: nn.Module | None, frame: FrameType) -> _Known:
        self._forget_dead()
        core = self._known(unwrap(module))
        parent = self._known(caller) if caller is not None else None
        if core is not None:  # The program wrapped a module that has a name.
            self._register(module, core.scope.name, core.path, is_firm=core.is_firm)
        elif caller is None or parent is None:
            self._add_root(module, place_of(ROOT, module, frame), frame)
        else:
            self._add_inside(module, caller, parent, place_of(parent.scope.name, module, frame))
        return self._modules[id(module)]

    def _add_root(self, module: nn.Module, place: Place, frame: FrameType) -> None:
        """Name a module that is called outside of all others, or the tree that owns it."""

        def is_held_alike(slot: Slot) -> bool:
            holder = self._holder(module, place, frame)
            return holder.module is module and _instance(holder) == slot.instance

        slot = self._built.reuse(place, module, self._turn, is_held_alike)
        if slot is None and self._find_in_roots(module):
            return
        if slot is not None:
            self._add_built(module, slot, "")
            self._add_root_name(slot.name, module)
            return
        holder = self._holder(module, place, frame)
        instance = _instance(holder)
        base = f"{ROOT}/{_part(instance, holder.module)}"
        name = self._names.free(base, self._built.names(place))
        self._add_tree(holder.module, name, "", is_firm=holder.name is not None)
        self._add_root_name(name, holder.module)
        if holder.module is module:
            slot = self._built.add(place, module, name, instance, self._turn)
            self._modules[id(module)].slot = slot
            if holder.name is None:
                self._names.reserve(name)
        elif self._known(module) is None:  # The owner has the module without its wrapper.
            self._add(module, None, frame)

    def _holder(self, module: nn.Module, place: Place, frame: FrameType) -> Holder:
        """What holds a root. The search is long, so further modules without weights or children
        (losses, activations) of one place count as held like the first of them."""
        first = self._built.first(place)
        if first is not None and not module._modules and not module._parameters:
            return Holder(first.instance, module)
        return find_holder(module, layers_of(module), frame)

    def _add_root_name(self, name: str, module: nn.Module) -> None:
        self._roots[name] = weakref.ref(unwrap(module))

    def _add_inside(
        self, module: nn.Module, caller: nn.Module, parent: _Known, place: Place
    ) -> None:
        """Name a module that was not in the tree when its root was named.

        It was added to the tree later, or its caller holds it in a plain list, a dict or a closure,
        or has just built it.
        """
        scope = parent.scope.name
        for attribute, child in unwrap(caller)._modules.items():
            if child is module:
                path = _join(parent.path, attribute)
                name = f"{scope}/{_part(attribute, module)}"
                self._add_tree(module, name, path, is_firm=parent.is_firm)
                return
        slot = self._built.reuse(place, module, parent.turn, lambda slot: True)
        if slot is None and self._find_in_roots(module):
            return
        if slot is None:
            attribute = attribute_holding(caller, module) or class_name(module).lower()
            name = self._names.free(f"{scope}/{_part(attribute, module)}")
            self._names.reserve(name)
            slot = self._built.add(place, module, name, attribute, parent.turn)
        self._add_built(module, slot, _join(parent.path, slot.instance))

    def _add_built(self, module: nn.Module, slot: Slot, path: str) -> None:
        """Give ``module`` the name of ``slot``, or another if a live module has taken it."""
        holder = self._names.holder(slot.name)
        known = self._known(holder) if holder is not None else None
        if known is not None and known.slot is slot:
            known.slot = None  # The module that had the slot before, not yet collected.
        elif known is not None and holder is not module:
            scope = slot.name.rpartition("/")[0]
            slot.name = self._names.free(f"{scope}/{_part(slot.instance, module)}")
        self._add_tree(module, slot.name, path, is_firm=False)
        self._modules[id(module)].slot = slot

    def _find_in_roots(self, module: nn.Module) -> bool:
        """Name what was added to the tree of a known root, if ``module`` is among it."""
        for name, root in self.roots():
            if contains(root, {id(module)}):
                known = self._known(root)
                self._add_tree(root, name, "", is_firm=known is not None and known.is_firm)
                return self._known(module) is not None
        return False

    def _add_tree(self, module: nn.Module, name: str, path: str, *, is_firm: bool) -> None:
        """Name ``module`` and all below it; a module reached twice keeps its first name.

        A module below that has a firm name keeps it.
        """
        waiting = [(module, name, path)]
        seen: set[int] = set()
        while waiting:
            here, name, path = waiting.pop()
            if id(here) in seen:
                continue
            seen.add(id(here))
            known = self._known(here)
            if known is not None and known.is_firm and here is not module:
                name, path = known.scope.name, known.path
            else:
                self._register(here, name, path, is_firm=is_firm)
            inner = wrapped(here)
            if inner is not None:
                waiting.append((inner, name, path))
                continue
            children = [
                (child, f"{name}/{_part(attribute, child)}", _join(path, attribute))
                for attribute, child in here._modules.items()
                if child is not None
            ]
            waiting.extend(reversed(children))

    def _register(self, module: nn.Module, name: str, path: str, *, is_firm: bool) -> None:
        known = self._known(module)
        if known is not None and known.scope.name == name:
            known.path, known.is_firm = path, is_firm
            return
        if known is not None:
            self._names.release(known.scope.name, known.module)
            self._roots.pop(known.scope.name, None)
        reference = _ModuleReference(module, self._dead.append)
        reference.key, reference.name = id(module), name
        self._modules[id(module)] = _Known(reference, self.scope(name), path, is_firm)
        self._names.take(name, reference)

    def _forget_dead(self) -> None:
        while self._dead:
            dead: Any = self._dead.pop()
            key, name = dead.key, dead.name
            known = self._modules.get(key)
            if known is not None and known.module is dead:
                del self._modules[key]
            self._names.release(name, dead)


def _instance(holder: Holder) -> str:
    is_loss = isinstance(unwrap(holder.module), private.LossModule)
    return instance_name(holder.name, is_loss=is_loss)


def _part(name: str, named: nn.Module | torch.optim.Optimizer) -> str:
    """One part of a scope: ``encoder-Sequential``, or without classes ``encoder``."""
    if not PROGRAM.class_names_in_scopes:
        return name
    cls = class_name(named) if isinstance(named, nn.Module) else type(named).__name__
    return f"{name}-{cls}"


def _join(path: str, attribute: str) -> str:
    return f"{path}.{attribute}" if path else attribute
