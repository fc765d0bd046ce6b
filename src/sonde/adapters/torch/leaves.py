"""Tensors that enter a step from outside, and what to call them.

In this order: a parameter or buffer of a module that was called; the state of an optimizer; a
gradient left from an earlier step; a tensor a module holds as a plain attribute (a constant); a
variable of the user's code; else ``data-<n>``.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from types import FrameType
from typing import Any

import torch
from torch import nn

from sonde.adapters.torch.scopes import ROOT, ScopeBook
from sonde.adapters.torch.sources import is_user_file
from sonde.adapters.torch.structure import Leaf
from sonde.core.graph import LEAF_TYPES, Kind, OpNode, TensorSpec

_SEARCHED_FRAMES = 8
_LARGEST_CONTAINER = 64


def storage_key(tensor: torch.Tensor) -> int:
    """A number for the memory behind ``tensor``; negative where there is no plain storage."""
    try:
        return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):
        return -int(tensor._cdata)


def geometry(tensor: torch.Tensor) -> tuple[Any, ...]:
    try:
        return (tensor.dtype, tensor.shape, tensor.stride(), tensor.storage_offset())
    except (NotImplementedError, RuntimeError):
        return (tensor.dtype, tensor.shape)


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def spec_of(tensor: torch.Tensor) -> TensorSpec:
    return TensorSpec(dtype_name(tensor.dtype), tuple(int(size) for size in tensor.shape))


class LeafBook:
    """The leaves met so far. Used from the training thread only."""

    def __init__(self, scopes: ScopeBook) -> None:
        self._scopes = scopes
        self._leaves: dict[tuple[str, str], Leaf] = {}
        self._named: dict[int, tuple[Kind, str, str]] = {}
        self._optimizers: list[torch.optim.Optimizer] = []

    def know_optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        if not any(known is optimizer for known in self._optimizers):
            self._optimizers.append(optimizer)

    def forget_names(self) -> None:
        """Look names up afresh: storages may have been freed and their numbers used again."""
        self._named.clear()

    def leaf_for(
        self, tensor: torch.Tensor, key: int, frame: FrameType | None, used: Container[Leaf]
    ) -> Leaf:
        """The leaf ``tensor`` is. ``used`` are those other tensors of this step are already."""
        named = self._registered(key)
        if named is not None:
            kind, name, scope = named
            leaf = self._leaf(kind, name, scope, tensor)
            leaf.is_lasting = True
            return leaf
        trainable = tensor.is_leaf and tensor.requires_grad
        kind = "parameter" if trainable else "constant" if tensor.dim() == 0 else "input"
        text = _variable_name(tensor, key, frame) or "data"
        name, number = (text, 0) if text != "data" else ("data-0", 0)
        while (kind, name) in self._leaves and self._leaves[(kind, name)] in used:
            number += 1
            name = f"{text}-{number}"
        if trainable:
            self._named[key] = (kind, name, ROOT)
        return self._leaf(kind, name, ROOT, tensor)

    def _leaf(self, kind: Kind, name: str, scope: str, tensor: torch.Tensor) -> Leaf:
        leaf = self._leaves.get((kind, name))
        if leaf is None:
            node = OpNode(
                name=name,
                type=LEAF_TYPES[kind],
                scope=scope,
                phase="forward",
                kind=kind,
                outputs=(spec_of(tensor),),
            )
            leaf = self._leaves[(kind, name)] = Leaf(node, geometry(tensor))
        return leaf

    def may_be(self, leaf: Leaf, tensor: torch.Tensor, key: int) -> bool:
        """Whether ``tensor``, met for the first time in this step, can stand for ``leaf``."""
        if leaf.is_lasting:
            named = self._registered(key)
            return named is not None and self._leaves.get(named[:2]) is leaf
        if leaf.kind == "parameter":
            return tensor.is_leaf and tensor.requires_grad and key not in self._named
        return (
            not isinstance(tensor, nn.Parameter)
            and (tensor.dim() == 0) == (leaf.kind == "constant")
            and key not in self._named
        )

    def parameter_scope(self, parameter: torch.Tensor) -> str | None:
        """The scope of the module that owns ``parameter``, if it is known."""
        named = self._registered(storage_key(parameter))
        return named[2] if named is not None else None

    def _registered(self, key: int) -> tuple[Kind, str, str] | None:
        """What the modules and optimizers known now call a storage."""
        named = self._named.get(key)
        if named is None:
            self._collect()
            named = self._named.get(key)
        return named

    def _collect(self) -> None:
        """Name everything the known modules and optimizers hold."""
        names: dict[str, int] = {}
        for root_scope, root in self._scopes.roots():
            for name, tensor, kind in _held_by(root):
                key = storage_key(tensor)
                if names.setdefault(name, key) != key:
                    name = f"{root_scope.rsplit('/', 1)[-1]}.{name}"
                scope = self._scopes.scope_of_path(root, name.rpartition(".")[0]).name
                self._add(tensor, kind, name, scope)
        for optimizer in self._optimizers:
            scope = self._scopes.optimizer(optimizer).name
            for parameter, state in optimizer.state.items():
                owner = self._named.get(storage_key(parameter), ("", "parameter", ""))[1]
                for name, value in state.items() if isinstance(state, dict) else ():
                    if isinstance(value, torch.Tensor):
                        self._add(value, "parameter", f"{name}.{owner}", scope)
            for number, group in enumerate(optimizer.param_groups):
                for name, value in group.items():
                    if isinstance(value, torch.Tensor):
                        self._add(value, "parameter", f"{name}.group{number}", scope)

    def _add(self, tensor: torch.Tensor, kind: Kind, name: str, scope: str) -> None:
        self._named.setdefault(storage_key(tensor), (kind, name, scope))
        gradient = tensor.grad if tensor.is_leaf else None
        if gradient is not None:
            self._named.setdefault(storage_key(gradient), ("parameter", f"{name}.grad", scope))


def _held_by(root: nn.Module) -> Iterator[tuple[str, torch.Tensor, Kind]]:
    for name, parameter in root.named_parameters():
        yield name, parameter, "parameter"
    for name, buffer in root.named_buffers():
        yield name, buffer, "parameter"
    for path, module in root.named_modules():
        for attribute, value in module.__dict__.items():
            if isinstance(value, torch.Tensor):
                yield (f"{path}.{attribute}" if path else attribute), value, "constant"


def _variable_name(tensor: torch.Tensor, key: int, frame: FrameType | None) -> str | None:
    """The name under which the user's code holds the tensor: the outermost frame that has it.

    A variable that is the tensor itself comes before one that only shares its memory.
    """
    same: str | None = None
    shared: str | None = None
    searched = 0
    while frame is not None and searched < _SEARCHED_FRAMES:
        if is_user_file(frame.f_code.co_filename):
            searched += 1
            for name, value in _tensors_among(frame.f_locals):
                if storage_key(value) == key:
                    if geometry(value) == geometry(tensor):
                        same = name
                    else:
                        shared = shared or name
        frame = frame.f_back
    return same or shared


def _tensors_among(variables: dict[str, Any]) -> Iterator[tuple[str, torch.Tensor]]:
    for name, value in list(variables.items()):
        if isinstance(value, torch.Tensor):
            yield name, value
        elif isinstance(value, (list, tuple, dict)) and len(value) < _LARGEST_CONTAINER:
            items = value.items() if isinstance(value, dict) else enumerate(value)
            for item, inner in list(items):
                if isinstance(inner, torch.Tensor):
                    yield f"{name}.{item}", inner
