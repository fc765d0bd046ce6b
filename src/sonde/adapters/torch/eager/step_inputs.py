"""Names the tensors that enter a step from outside.

A tensor is, in this order: a parameter or buffer of a module that was called; the state of an
optimizer; a gradient left from an earlier step; a tensor that a module holds as a plain attribute
(a constant); a variable of the user's code; else ``data-<n>``.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from types import FrameType
from typing import Any

import torch
from torch import nn

from sonde.adapters.torch import private
from sonde.adapters.torch.eager.naming.frame_variables import variables_of
from sonde.adapters.torch.eager.naming.scopes import ROOT, ScopeRegistry
from sonde.adapters.torch.eager.naming.source_lines import is_user_file
from sonde.adapters.torch.eager.op_tree import StepInput
from sonde.adapters.torch.eager.tensor_places import LooseTensor, ModulePlace, held_by
from sonde.adapters.torch.tensors.unusual_layouts import local_part, placement_of
from sonde.core.graph import LEAF_TYPES, Kind, OpNode, TensorSpec
from sonde.core.interruption import pass_on
from sonde.watch.op_types import UNFILLED

_MEMORY = "memory"
_SEARCHED_FRAMES = 8
_LARGEST_CONTAINER = 64


def storage_key(tensor: torch.Tensor) -> int:
    """The key of the memory of ``tensor`` in the tables; negative if it has no storage."""
    try:
        return private.storage_id(tensor.untyped_storage())
    except (NotImplementedError, RuntimeError) as error:
        pass_on(error)
        return -private.tensor_id(tensor)


def geometry(tensor: torch.Tensor) -> tuple[Any, ...]:
    """What distinguishes tensors over one storage: with equal geometry they have equal values."""
    try:
        return (
            tensor.dtype,
            tensor.shape,
            tensor.stride(),
            tensor.storage_offset(),
            tensor.is_conj(),
            tensor.is_neg(),
        )
    except (NotImplementedError, RuntimeError) as error:
        pass_on(error)
        return (tensor.dtype, shape_of(tensor))


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def spec_of(tensor: torch.Tensor) -> TensorSpec:
    return spec(tensor.dtype, shape_of(tensor))


@lru_cache(maxsize=4096)
def spec(dtype: torch.dtype, shape: tuple[int, ...]) -> TensorSpec:
    """Tensors of one type and shape share one object."""
    return TensorSpec(dtype_name(dtype), shape)


def shape_of(tensor: torch.Tensor) -> tuple[int, ...]:
    """The shape; for a nested tensor only the number of tensors it holds."""
    try:
        return tuple(int(size) for size in tensor.shape)
    except (RuntimeError, AttributeError) as error:  # AttributeError: sizes that are not numbers
        pass_on(error)
        return (int(tensor.size(0)),)


class StepInputRegistry:
    """The step inputs met so far, and their names. Used from the training thread only."""

    def __init__(self, scopes: ScopeRegistry) -> None:
        self._scopes = scopes
        self._leaves: dict[tuple[str, str], StepInput] = {}
        self._named: dict[int, _Named] = {}
        # Step inputs of the running step have all smaller numbers, by the text before the number.
        self._numbers: dict[str, int] = {}
        # Autograd leaves that no module holds, each with its version when it was first met; kept
        # if the consumer asks for them.
        self._loose: dict[str, tuple[LooseTensor, int]] = {}
        self.tracks_loose = False
        self._optimizers: list[weakref.ref[torch.optim.Optimizer]] = []
        # Storages that were allocated again (``resize_``) and not written since.
        self.unfilled: dict[int, weakref.ref[torch.UntypedStorage]] = {}

    def know_optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        if not any(known() is optimizer for known in self._optimizers):
            self._optimizers.append(weakref.ref(optimizer))

    def forget_names(self) -> None:
        """Forget the names of storages: a storage may be freed and its key used again."""
        self._named.clear()
        self._forget_dead()
        self._numbers.clear()

    def leaf_for(
        self,
        tensor: torch.Tensor,
        key: int,
        frame: FrameType | None,
        is_used: Callable[[StepInput], bool],
        *,
        is_fresh: bool = False,
    ) -> StepInput:
        """The step input for ``tensor``. ``is_used``: it belongs to another tensor of the step.
        ``is_fresh``: torch has just made the tensor, so that no module, optimizer or variable holds
        it yet. Adam makes one for each parameter in its first step, and all that modules and
        optimizers hold would be searched for each."""
        if key in self.unfilled:
            return self._memory(tensor, is_used)
        named = self._known(key) if is_fresh else self._registered(key)
        if named is not None:
            leaf = self._leaf(named.kind, named.name, named.scope, tensor)
            leaf.is_lasting = True
            return leaf
        trainable = tensor.is_leaf and tensor.requires_grad
        kind: Kind = "parameter" if trainable else "constant" if tensor.dim() == 0 else "input"
        text = _variable_name(tensor, key, None if is_fresh else frame) or "data"
        name = self._numbered(text, is_used)
        if trainable:
            self._name(key, _Named(kind, name, ROOT, _storage_of(tensor)))
            if self.tracks_loose:
                met = self._loose.get(name)
                if met is None or met[0].tensor is not tensor:
                    self._loose[name] = (LooseTensor(tensor), private.version_of(tensor))
        return self._leaf(kind, name, ROOT, tensor)

    def _memory(self, tensor: torch.Tensor, is_used: Callable[[StepInput], bool]) -> StepInput:
        """The step input for memory that was allocated again: its values mean nothing."""
        number = 0
        while (known := self._leaves.get(("input", f"{_MEMORY}-{number}"))) and is_used(known):
            number += 1
        leaf = self._leaf("input", f"{_MEMORY}-{number}", ROOT, tensor)
        leaf.ref.is_unfilled = True
        leaf.node = replace(leaf.node, attributes=((UNFILLED, "0"),))
        return leaf

    def unlisted(
        self, tensor: torch.Tensor, key: int, text: str, is_used: Callable[[StepInput], bool]
    ) -> StepInput | None:
        """The step input, called ``text`` and perhaps a number, for a tensor that no module or
        optimizer holds; None if one may hold it. ``is_used``: it belongs to another tensor."""
        if tensor.requires_grad or isinstance(tensor, nn.Parameter):
            return None
        if key in self.unfilled or self._known(key) is not None:
            return None
        kind: Kind = "constant" if tensor.dim() == 0 else "input"
        return self._leaf(kind, self._numbered(text, is_used), ROOT, tensor)

    def _numbered(self, text: str, is_used: Callable[[StepInput], bool]) -> str:
        """``text``, with the first number that no step input of this step has."""
        number = self._numbers.get(text, 0)
        while True:
            name = f"{text}-{number}" if number or text == "data" else text
            others = (self._leaves.get((kind, name)) for kind in LEAF_TYPES)
            if not any(other is not None and is_used(other) for other in others):
                break
            number += 1
        self._numbers[text] = number
        return name

    def _leaf(self, kind: Kind, name: str, scope: str, tensor: torch.Tensor) -> StepInput:
        leaf = self._leaves.get((kind, name))
        if leaf is None:
            placement = placement_of(tensor)
            node = OpNode(
                name=name,
                type=LEAF_TYPES[kind],
                scope=scope,
                phase="forward",
                kind=kind,
                outputs=(spec_of(tensor),),
                attributes=() if placement is None else (("placement.output.0", placement),),
            )
            leaf = self._leaves[(kind, name)] = StepInput(node)
        return leaf

    def may_be(self, leaf: StepInput, tensor: torch.Tensor, key: int) -> bool:
        """Whether ``tensor``, first met in this step now, can be the step input ``leaf``."""
        if leaf.ref.is_unfilled or key in self.unfilled:
            return leaf.ref.is_unfilled and key in self.unfilled
        if leaf.is_lasting:
            named = self._registered(key)
            return named is not None and self._leaves.get((named.kind, named.name)) is leaf
        if leaf.node.kind == "parameter":
            return tensor.is_leaf and tensor.requires_grad and self._known(key) is None
        return (
            not isinstance(tensor, nn.Parameter)
            and (tensor.dim() == 0) == (leaf.node.kind == "constant")
            and self._known(key) is None
        )

    def parameter_scope(self, parameter: torch.Tensor) -> str | None:
        """The scope of the module that owns ``parameter``, if it is known."""
        named = self._registered(storage_key(parameter))
        return named.scope if named is not None else None

    def parameter_name(self, parameter: torch.Tensor) -> tuple[str, str] | None:
        """The name of ``parameter``, and the scope of the module that owns it, if it is known."""
        named = self._registered(storage_key(parameter))
        return None if named is None else (named.name, named.scope)

    def _registered(self, key: int) -> _Named | None:
        """The name that the modules and optimizers known now give to a storage."""
        named = self._known(key)
        if named is None:
            self._collect()
            named = self._known(key)
        return named

    def _known(self, key: int) -> _Named | None:
        """The name of a storage, unless its key has been used again for another one since."""
        named = self._named.get(key)
        if named is not None and not named.is_over(key):
            del self._named[key]
            return None
        return named

    def held(self) -> Iterator[tuple[str, str, torch.Tensor, Kind, ModulePlace]]:
        """Name, scope, tensor, kind and place of everything the known modules hold."""
        names: dict[str, int] = {}
        for root_scope, root in self._scopes.roots():
            for name, tensor, kind, place in held_by(root):
                scope = self._scopes.scope_of_path(root, name.rpartition(".")[0]).name
                key = storage_key(tensor)
                if names.setdefault(name, key) != key:
                    name = f"{root_scope.rsplit('/', 1)[-1]}.{name}"
                yield name, scope, tensor, kind, place

    def updated(self) -> Iterator[tuple[str, LooseTensor]]:
        """Autograd leaves that no module holds and that the program trains, with their names: they
        were changed in place since they were met. Data that only requires a gradient is not.
        Needs ``tracks_loose``."""
        for name, (known, version) in self._loose.items():
            tensor = known.tensor
            if tensor is not None and private.version_of(tensor) > version:
                yield name, known

    def _forget_dead(self) -> None:
        for name, (known, _) in list(self._loose.items()):
            if known.tensor is None:
                del self._loose[name]

    def _collect(self) -> None:
        """Name everything the known modules and optimizers hold."""
        for name, scope, tensor, kind, place in self.held():
            self._add(tensor, kind, name, scope, place)
        for optimizer in filter(None, [known() for known in self._optimizers]):
            scope = self._scopes.optimizer(optimizer).name
            for parameter, state in optimizer.state.items():
                known = self._known(storage_key(parameter))
                owner = known.name if known is not None else "parameter"
                for name, value in state.items() if isinstance(state, dict) else ():
                    if isinstance(value, torch.Tensor):
                        self._add(value, "parameter", f"{name}.{owner}", scope)
            for number, group in enumerate(optimizer.param_groups):
                for name, value in group.items():
                    if isinstance(value, torch.Tensor):
                        self._add(value, "parameter", f"{name}.group{number}", scope)

    def _add(
        self,
        tensor: torch.Tensor,
        kind: Kind,
        name: str,
        scope: str,
        place: ModulePlace | None = None,
    ) -> None:
        key = storage_key(tensor)
        self._name(key, _Named(kind, name, scope, _storage_of(tensor), place))
        local = local_part(tensor)
        if local is not tensor:
            # Such as FSDP2, which gathers a weight from the parts of the ranks.
            named = _Named(kind, f"{name}.local", scope, _storage_of(local))
            self._name(storage_key(local), named)
        gradient = tensor.grad if tensor.is_leaf else None
        if gradient is not None:
            storage = _storage_of(gradient)
            named = _Named("parameter", f"{name}.grad", scope, storage, place, is_gradient=True)
            self._name(storage_key(gradient), named)

    def _name(self, key: int, named: _Named) -> None:
        if self._known(key) is None:
            self._named[key] = named


@dataclass(frozen=True, slots=True)
class _Named:
    """The name of a tensor, its storage if it has one, and where a module holds it (or, with
    ``is_gradient``, the tensor that it is the gradient of), if one does."""

    kind: Kind
    name: str
    scope: str
    storage: weakref.ref[torch.UntypedStorage] | None
    place: ModulePlace | None = None
    is_gradient: bool = False

    def is_over(self, key: int) -> bool:
        """Whether the tensor is alive and its storage is ``key``, as far as can be known."""
        if self.storage is not None and self.storage() is None:
            return False
        if self.place is None:
            return self.storage is not None
        tensor = self.place.tensor
        if tensor is not None and self.is_gradient:
            tensor = tensor.grad
        return tensor is not None and storage_key(tensor) == key


def _storage_of(tensor: torch.Tensor) -> weakref.ref[torch.UntypedStorage] | None:
    try:
        return weakref.ref(tensor.untyped_storage())
    except (NotImplementedError, RuntimeError) as error:
        pass_on(error)
        return None


def _variable_name(tensor: torch.Tensor, key: int, frame: FrameType | None) -> str | None:
    """The name under which the user's code holds the tensor: the outermost frame that has it.

    A variable that is the tensor itself comes before one that only shares its memory.
    """
    same: str | None = None
    shared: str | None = None
    frames = (each for each in private.frames_from(frame) if is_user_file(each.f_code.co_filename))
    for each in islice(frames, _SEARCHED_FRAMES):
        for name, value in _tensors_among(variables_of(each)):
            if storage_key(value) == key:
                if geometry(value) == geometry(tensor):
                    same = name
                else:
                    shared = shared or name
    return same or shared


def _tensors_among(variables: list[tuple[str, Any]]) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors that variables are or hold."""
    for name, value in variables:
        if isinstance(value, torch.Tensor):
            yield name, value
        elif isinstance(value, (list, tuple, dict)) and len(value) < _LARGEST_CONTAINER:
            items = value.items() if isinstance(value, dict) else enumerate(value)
            for item, inner in list(items):
                if isinstance(inner, torch.Tensor):
                    yield f"{name}.{item}", inner
