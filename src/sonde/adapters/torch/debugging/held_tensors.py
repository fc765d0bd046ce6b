"""The parameters and buffers of the networks that are trained, as the debugger sees them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING

import torch

from sonde.adapters.torch import private
from sonde.adapters.torch.debugging.optimizers import OptimizerRegistry, parameters_of
from sonde.adapters.torch.eager.naming.scopes import ROOT
from sonde.adapters.torch.eager.step_inputs import storage_key
from sonde.adapters.torch.eager.tensor_places import LooseTensor, Place
from sonde.adapters.torch.tensors.view import TorchView
from sonde.core.graph import OpNode
from sonde.core.sink import TensorView

if TYPE_CHECKING:
    from sonde.adapters.torch.adapter import TorchAdapter


class TorchHeld:
    """See ``debugger.trainee.Held``: the tensor that is at ``place`` whenever it is asked for."""

    def __init__(self, name: str, scope: str, place: Place) -> None:
        self.name = name
        self.scope = scope
        self._place = place
        self.gradient_maker: tuple[str, int] | None = None

    @property
    def tensor(self) -> torch.Tensor | None:
        return self._place.tensor

    @property
    def is_weight(self) -> bool:
        tensor = self.tensor
        return tensor is not None and tensor.requires_grad

    def value(self) -> TensorView:
        tensor = self.tensor
        return TorchView(_GONE if tensor is None else tensor)

    def gradient(self) -> TensorView | None:
        tensor = self.tensor
        gradient = tensor.grad if tensor is not None and tensor.is_leaf else None
        return None if gradient is None else TorchView(gradient)


# This module may be imported inside modes of the program.
with private.unobserved():
    _GONE = torch.empty(0, device="cpu")


class TorchSnapshot:
    """See ``debugger.trainee.Snapshot``."""

    def __init__(self, tensor: torch.Tensor) -> None:
        # A tensor made in inference mode cannot be written to outside of it. The mode is left only
        # where it is on: when a signal handler interrupts ``inference_mode``, torch restores the
        # grad mode as late as the exception is freed.
        with torch.inference_mode(False) if torch.is_inference_mode_enabled() else nullcontext():
            self._copy = tensor.detach().clone()

    @property
    def nbytes(self) -> int:
        return self._copy.numel() * self._copy.element_size()

    @property
    def view(self) -> TensorView:
        return TorchView(self._copy)

    def renew(self, view: TensorView) -> bool:
        assert isinstance(view, TorchView)
        tensor = view.tensor.detach()
        same = tensor.shape == self._copy.shape and tensor.dtype == self._copy.dtype
        if same:
            self._copy.copy_(tensor)
        return same


class HeldTensors:
    """Tracks the tensors of the networks and their names. Used from the training thread only.

    Modules become known as they run, so the list is collected again when it is *stale*.
    """

    def __init__(self) -> None:
        self.optimizers = OptimizerRegistry()
        self._adapter: TorchAdapter | None = None
        self._held: list[TorchHeld] = []
        self._by_id: dict[int, TorchHeld] = {}
        # The tensors that no optimizer has changed yet; None: unknown.
        self._unchanged: tuple[TorchHeld, ...] | None = None
        self._is_stale = True
        # Torch's counts of writes when an optimizer of an observed step began, by tensor.
        self._versions: dict[int, int] = {}

    def follow(self, adapter: TorchAdapter) -> None:
        """Collect what the networks that ``adapter`` observes hold."""
        self._adapter = adapter
        adapter.observer.inputs.leaves.tracks_loose = True

    @property
    def by_id(self) -> Mapping[int, TorchHeld]:
        return self._by_id

    def set_stale(self) -> None:
        self._is_stale = True

    def optimizer_changes_weights(self) -> None:
        """Note that an optimizer steps for the first time: fewer tensors are unchanged."""
        self._unchanged = None

    def all(self) -> Sequence[TorchHeld]:
        if self._is_stale:
            self._collect()
        return [each for each in self._held if each.tensor is not None]

    def unchanged_yet(self) -> Sequence[TorchHeld]:
        if self._unchanged is None or self._is_stale:
            held = self.all()
            changed = self.optimizers.changed()
            self._unchanged = tuple(each for each in held if id(each.tensor) not in changed)
        return self._unchanged

    def note_versions(self, optimizer: torch.optim.Optimizer) -> None:
        """Note the state of the parameters of ``optimizer``, which is about to change them."""
        for parameter in parameters_of(optimizer):
            self._versions[id(parameter)] = private.version_of(parameter)

    def forget_versions(self) -> None:
        self._versions.clear()

    def is_updated(self, name: str) -> bool:
        """Whether a parameter was changed since an optimizer of this step began."""
        for held in self._held if self._versions else ():
            tensor = held.tensor
            if held.name == name and tensor is not None:
                version = self._versions.get(id(tensor))
                return version is not None and version != private.version_of(tensor)
        return False

    def left_alone(self) -> Collection[str]:
        """The names of tensors whose optimizers did not step in this step."""
        self.optimizers.search(len(self._by_id))
        return self._names(self.optimizers.left_alone())

    def excused(self, nodes: Sequence[OpNode]) -> Collection[str]:
        """The names of tensors that need not change in this step although their optimizer stepped:
        see ``OptimizerRegistry.excused``; or their module did not run."""
        return self._names(self.optimizers.excused()) | self._of_idle_modules(nodes)

    def _names(self, numbers: Iterable[int]) -> set[str]:
        known = (self._by_id.get(number) for number in numbers)
        return {held.name for held in known if held is not None}

    def _of_idle_modules(self, nodes: Sequence[OpNode]) -> set[str]:
        """The names of weights without a gradient whose module did not run in this step, or that no
        optimizer holds (averages of weights). Without observed ops it is unknown which modules ran;
        then all weights without a gradient count."""
        missing = [
            each for each in self._held if each.tensor is not None and each.tensor.grad is None
        ]
        ran = {node.scope for node in nodes} if missing else set()
        held = self.optimizers.held() if missing else set()
        return {
            each.name for each in missing if each.scope not in ran or id(each.tensor) not in held
        }

    def knows_all_of(self, optimizer: torch.optim.Optimizer) -> bool:
        parameters = parameters_of(optimizer)
        held = ((self._by_id.get(id(parameter)), parameter) for parameter in parameters)
        return all(known is not None and known.tensor is parameter for known, parameter in held)

    def names_of(self, optimizer: torch.optim.Optimizer) -> list[str]:
        """The names of the known parameters of ``optimizer``."""
        held = (self._by_id.get(id(parameter)) for parameter in parameters_of(optimizer))
        return [each.name for each in held if each is not None]

    def learn_gradients(self, optimizer: torch.optim.Optimizer) -> None:
        """Learn which op of this step made the gradient of which parameter, and the names of
        parameters that no module holds."""
        assert self._adapter is not None
        tables = self._adapter.observer.tables
        self._collect()
        for parameter in parameters_of(optimizer):
            held = self._by_id.get(id(parameter))
            if held is None:
                entry = tables.entry(storage_key(parameter))
                leaf = None if not entry else entry[0].leaf
                if leaf is None:
                    continue
                held = TorchHeld(leaf.node.name, leaf.node.scope, LooseTensor(parameter))
                self._held.append(held)
                self._by_id[id(parameter)] = held
            if parameter.grad is not None:
                entry = tables.entry(storage_key(parameter.grad))
                if entry and entry[0].leaf is None:
                    held.gradient_maker = (entry[0].producer.name, entry[0].slot)

    def _collect(self) -> None:
        """Collect what the networks known now hold; tensors that are not found again stay known."""
        if self._adapter is None:
            return
        known = {held.name: held for held in self._held}
        fresh: dict[int, TorchHeld] = {}
        leaves = self._adapter.observer.inputs.leaves
        for name, scope, tensor, kind, place in leaves.held():
            held = known.pop(name, None)
            if held is None or held.tensor is not tensor:
                held = TorchHeld(name, scope, place)
            if kind == "parameter":
                fresh.setdefault(id(tensor), held)
        for name, loose in leaves.updated():
            if id(loose.tensor) not in fresh and name not in known:
                fresh[id(loose.tensor)] = TorchHeld(name, ROOT, loose)
        for held in known.values():
            tensor_left = held.tensor
            if tensor_left is not None:
                fresh.setdefault(id(tensor_left), held)
        if fresh.keys() != self._by_id.keys():
            self._unchanged = None
        self._by_id = fresh
        self._held = list(fresh.values())
        self._is_stale = not self._held
