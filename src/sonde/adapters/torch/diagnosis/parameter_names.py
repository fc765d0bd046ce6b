"""Names of parameters that belong to no registered module."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any

import torch
from torch import nn

MOST_LISTED = 64
"""Elements of a list or dictionary that are looked at."""


def names_in_containers(roots: Iterable[nn.Module]) -> dict[int, str]:
    """The names of parameters of modules in what modules hold and torch does not look into: lists
    and dictionaries, such as ``heads[age].weight``, and objects of other classes, such as
    ``tower.embedding.weight``."""
    found: dict[int, str] = {}
    for root in roots:
        for path, module in root.named_modules():
            for key, value in vars(module).items():
                if key[0] == "_":
                    continue
                for rest, each in _held_by(value):
                    place = f"{path}.{key}{rest}" if path else f"{key}{rest}"
                    if isinstance(each, nn.Module):
                        named = each.named_parameters()
                        found |= {id(one): f"{place}.{name}" for name, one in named}
                    elif isinstance(each, nn.Parameter):
                        found[id(each)] = place
    return found


def names_in_variables(
    wanted: Iterable[torch.Tensor], variables: Iterable[tuple[str, Any]]
) -> dict[int, str]:
    """The names of tensors in variables: that of the variable, the key in a dictionary, such as
    ``w1``, or ``weights[0]`` in a list. A name that would stand for two tensors is not given."""
    numbers = {id(each) for each in wanted}
    found: dict[int, str] = {}
    for variable, value in variables:
        if isinstance(value, torch.Tensor):
            named: list[tuple[str, Any]] = [(variable, value)]
        elif isinstance(value, Mapping):
            named = [(str(key), each) for key, each in _items(value)]
        elif isinstance(value, (list, tuple)):
            named = [(f"{variable}[{index}]", each) for index, each in _items(value)]
        else:
            continue
        for name, each in named:
            if id(each) in numbers and id(each) not in found:
                found[id(each)] = name
    times = list(found.values())
    return {number: name for number, name in found.items() if times.count(name) == 1}


def _held_by(value: object) -> Iterator[tuple[str, object]]:
    """The elements of a list or dictionary, or the attributes of an object, with what follows the
    name of ``value`` in theirs."""
    if isinstance(value, (list, tuple, dict)):
        for index, each in _items(value):
            yield f"[{index}]", each
    elif not isinstance(value, (nn.Module, torch.Tensor, type, ModuleType)):
        for name, each in _items(getattr(value, "__dict__", {})):
            yield f".{name}", each


def _items(value: Any) -> Iterator[tuple[Any, Any]]:
    items = value.items() if isinstance(value, Mapping) else enumerate(value)
    return iter(list(items)[:MOST_LISTED])
