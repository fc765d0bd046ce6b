"""Finds the variable or attribute by which the program holds a module that it calls.

The name of a network in the user's code (``G``, ``encoder``, ``self.model``) is the name that the
user knows it by. Searched are, in this order: the variables of the user's own frames, from the
outermost inwards, each frame's in the order of their definition; then the attributes of ``self`` in
the frames that called the module, from the innermost outwards. What is found first decides:

- a variable that is the module, or a list, tuple or dict with the module in it (``nets_0``);
- a variable that is a module with the called one somewhere below it, such as a LightningModule
  whose ``training_step`` calls ``self.encoder``: it is the *owner*, whose tree names the module.

The search reads every variable of every frame, so it is made once for a module, see ``scopes``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from inspect import CO_OPTIMIZED
from types import FrameType
from typing import Any

from torch import nn

from sonde.adapters.torch import private
from sonde.adapters.torch.eager.naming.frame_variables import variables_of
from sonde.adapters.torch.eager.naming.source_lines import is_user_file
from sonde.core.interruption import pass_on
from sonde.core.own_code import is_own

_LARGEST_CONTAINER = 64
_NETWORK = frozenset({"net", "network", "model", "module", "self"})
_LOSS = frozenset(
    {"loss", "criterion", "crit", "loss_fn", "loss_fct", "loss_func", "loss_function", "lossfn"}
)


@dataclass(frozen=True, slots=True)
class Holder:
    """How a module is held: the name (None: by no variable), and the module so named, which is the
    called one or the owner of the tree that it is in."""

    name: str | None
    module: nn.Module


def find_holder(module: nn.Module, wrapped: Iterable[nn.Module], frame: FrameType | None) -> Holder:
    """The holder of ``module``, which ``frame`` calls; ``wrapped`` are the modules inside it if it
    is a wrapper such as DDP."""
    wanted = {id(module), *map(id, wrapped)}
    frames = [each for each in private.frames_from(frame) if is_user_file(each.f_code.co_filename)]
    own = [each for each in frames if is_own(each.f_code.co_filename)]
    searched: set[int] = set()
    for variables in (each for frame in reversed(own) for each in _namespaces(frame)):
        found = _held_among(variables, module, wanted, searched)
        if found is not None:
            return found
    for each in frames:
        caller = dict(variables_of(each)).get("self")
        found = _held_among(attributes_of(caller), module, wanted, searched)
        if found is not None:
            return found
    return Holder(None, module)


def instance_name(name: str | None, *, is_loss: bool) -> str:
    """The first half of a root's name: ``network`` or ``loss``, as MindSpore writes it, for the
    usual names of the only network or loss (``net``, ``model``, ``criterion``), else the name."""
    text = (name or "").strip("_")
    if not text or text.lower() in (_LOSS if is_loss else _NETWORK):
        return "loss" if is_loss else "network"
    return text


def attribute_holding(owner: nn.Module, module: nn.Module) -> str | None:
    """``layers_3`` when ``owner.layers[3] is module``, also in dicts and tuples."""
    for name, value in attributes_of(owner):
        if value is module:
            return name
        for key, item in _items(value):
            if item is module:
                return _element(name, key)
    return None


def attributes_of(owner: object) -> list[tuple[str, Any]]:
    """The attributes in the dictionary of ``owner``; runs no code of its class."""
    try:
        found = object.__getattribute__(owner, "__dict__")
    except AttributeError as error:
        pass_on(error)
        return []
    return list(found.items()) if type(found) is dict else []


def contains(root: nn.Module, wanted: set[int]) -> bool:
    """Whether a module with one of these ids is ``root`` or below it."""
    waiting, seen = [root], {id(root)}
    while waiting:
        here = waiting.pop()
        if id(here) in wanted:
            return True
        for child in getattr(here, "_modules", {}).values():
            if child is not None and id(child) not in seen:
                seen.add(id(child))
                waiting.append(child)
    return False


def _namespaces(frame: FrameType) -> Iterator[list[tuple[str, Any]]]:
    """The variables of a frame, then the global ones of its file, without private ones: an
    interactive shell keeps its last results in ``_``."""
    yield [(name, value) for name, value in variables_of(frame) if not name.startswith("_")]
    if frame.f_code.co_flags & CO_OPTIMIZED:
        yield [(name, value) for name, value in frame.f_globals.items() if not name.startswith("_")]


def _held_among(
    variables: list[tuple[str, Any]], module: nn.Module, wanted: set[int], searched: set[int]
) -> Holder | None:
    """The first of ``variables`` that holds the module. ``searched`` are modules that are known
    not to contain it, and grows."""
    for name, value in variables:
        if id(value) in wanted:
            return Holder(name, module)
        for key, item in _items(value, _LARGEST_CONTAINER):
            if id(item) in wanted:
                return Holder(_element(name, key), module)
        if issubclass(type(value), nn.Module) and id(value) not in searched:
            if contains(value, wanted):
                return Holder(name, value)
            searched.add(id(value))
    return None


def _items(value: Any, most: int | None = None) -> list[tuple[Any, Any]]:
    """The items of a list, tuple or dict with at most ``most``; runs no code of a subclass."""
    kind = type(value)
    if not issubclass(kind, (list, tuple, dict)):
        return []
    if issubclass(kind, dict):
        found = list(dict.items(value))
    else:
        found = list(enumerate((list if issubclass(kind, list) else tuple).__iter__(value)))
    return found if most is None or len(found) <= most else []


def _element(name: str, key: object) -> str:
    text = re.sub(r"\W+", "_", str(key)) if type(key) in (int, str) else "item"
    return f"{name}_{text}"
