"""Tensors of the program that are kept by reference until the step is over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy as shallow_copy
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, cast

import torch

from sonde.adapters.torch import private


@dataclass(slots=True, eq=False)
class KeptTensor:
    """A tensor as it was when the program used it.

    ``alias`` shares its memory and its count of writes, but not its autograd graph: keeping the
    graph would keep the activations of a forward pass that is never differentiated. ``leaf`` is the
    tensor itself if it is one that gradients are accumulated in. ``copy`` are the values, where the
    program is known to overwrite them. ``earlier``: the same tensor before a recorded op wrote to
    its memory.
    """

    key: int
    alias: torch.Tensor
    version: int
    requires_grad: bool
    leaf: torch.Tensor | None = None
    copy: torch.Tensor | None = None
    earlier: KeptTensor | None = None

    @property
    def memory(self) -> int | None:
        """What is equal for all tensors over the same memory; None if that is not known."""
        if not _is_plain(self.alias):
            return None
        return private.storage_id(self.alias.untyped_storage())

    @property
    def is_unchanged(self) -> bool:
        """Whether the memory still holds the values, as far as torch counts writes."""
        return private.version_of(self.alias) == self.version

    @property
    def is_known(self) -> bool:
        """Whether the values are still there, in the program's memory or as a copy."""
        return self.copy is not None or self.is_unchanged

    @property
    def values(self) -> torch.Tensor:
        """The values, without a graph. Not to be written to."""
        return self.alias if self.copy is None else self.copy

    def is_same_tensor(self, tensor: torch.Tensor) -> bool:
        """Whether ``tensor``, whose ``id`` is the key, is the kept one: the id of a tensor that
        was freed may be used again, its memory is not, because ``alias`` owns it."""
        alias = self.alias
        if self.leaf is not None or not _is_plain(alias):
            return tensor is self.leaf or tensor is alias
        return (
            private.storage_id(tensor.untyped_storage())
            == private.storage_id(alias.untyped_storage())
            and tensor.shape == alias.shape
            and tensor.stride() == alias.stride()
            and tensor.storage_offset() == alias.storage_offset()
        )


def _is_plain(tensor: torch.Tensor) -> bool:
    """Whether ``tensor`` is not of a subclass, and has memory with strides."""
    kind = type(tensor)
    is_own = kind is torch.Tensor or kind is torch.nn.Parameter
    return is_own and tensor.layout is torch.strided


def keep(tensor: torch.Tensor) -> KeptTensor:
    """``tensor``, kept by reference. Call it where no mode observes ops.

    A tensor of a subclass is its own alias.
    """
    return KeptTensor(
        id(tensor),
        tensor.detach() if _is_plain(tensor) else tensor,
        private.version_of(tensor),
        tensor.requires_grad,
        tensor if tensor.requires_grad and tensor.is_leaf else None,
    )


def tensors_in(tree: Any, kind: type = torch.Tensor) -> Iterator[Any]:
    """The tensors (or other ``kind``) in tuples, lists, dicts and dataclasses, in order."""
    if isinstance(tree, kind):
        yield tree
    elif isinstance(tree, (tuple, list)):
        for each in tree:
            yield from tensors_in(each, kind)
    elif isinstance(tree, dict):
        for each in tree.values():
            yield from tensors_in(each, kind)
    elif is_dataclass(tree) and not isinstance(tree, type):
        for field in fields(tree):
            yield from tensors_in(getattr(tree, field.name, None), kind)


def map_tree(tree: Any, kind: type, change: Callable[[Any], Any]) -> Any:
    """``tree`` with each ``kind`` in it replaced; containers with such are copied, not changed."""
    if isinstance(tree, kind):
        return change(tree)
    if isinstance(tree, tuple):
        items = [map_tree(each, kind, change) for each in tree]
        if all(one is other for one, other in zip(items, tree, strict=True)):
            return tree
        return type(tree)(*items) if hasattr(tree, "_fields") else _like(tree, items)
    if isinstance(tree, list):
        return _like(tree, [map_tree(each, kind, change) for each in tree])
    if isinstance(tree, dict):
        made = shallow_copy(tree)
        for key, each in tree.items():
            made[key] = map_tree(each, kind, change)
        return made
    if is_dataclass(tree) and not isinstance(tree, type):
        made = cast(Any, shallow_copy(tree))
        for field in fields(tree):
            value = getattr(tree, field.name, None)
            object.__setattr__(made, field.name, map_tree(value, kind, change))
        return made
    return tree


def _like(tree: Any, items: list[Any]) -> Any:
    """A tuple or list of the type of ``tree``, such as ``torch.Size`` or a list of the program."""
    plain: type = tuple if isinstance(tree, tuple) else list
    if type(tree) is plain:
        return plain(items)
    made = shallow_copy(tree)
    if isinstance(made, list):
        made[:] = items
        return made
    return type(tree)(items)
