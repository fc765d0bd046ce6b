"""Hashes the outputs of modules and their gradients, where ranks are tensor-parallel.

Hooks are put on the modules inside an outermost one for a call of a compared step, and are taken
away when it ends. A hook on an output gets its gradient, as the backward pass has added it up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch import nn

from sonde.adapters.torch import private
from sonde.adapters.torch.ranks.digests import plain, tensor_digest
from sonde.adapters.torch.ranks.layout import plain_name
from sonde.ranks.report import RankActivation

_MOST_MODULES: Final = 2000
_MOST_ACTIVATIONS: Final = 5000
_DROPOUTS: Final = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout)


def may_be_tensor_parallel(module: nn.Module) -> bool:
    """Whether a parameter is laid out over ranks other than by DDP: before the layout is known."""
    return any(
        hasattr(each, "device_mesh") or hasattr(each, "tensor_model_parallel")
        for each in module.parameters()
    )


@dataclass(slots=True)
class _Output:
    """What is known of one output; see ``RankActivation``."""

    digest: int
    is_declared: bool
    input_digest: int = 0
    random_digest: int = 0
    gradient: int = 0


@dataclass(slots=True, eq=False)
class ModuleOutputs:
    """The outputs of the modules of the running step, by the name of the module and the number of
    the call. ``shield`` takes failures of Sonde."""

    shield: Any
    _found: dict[str, _Output] = field(default_factory=dict)
    _calls: dict[str, int] = field(default_factory=dict)
    _before: dict[str, tuple[int, int]] = field(default_factory=dict)
    _handles: list[Any] = field(default_factory=list)

    def follow(self, module: nn.Module) -> None:
        """Follow the modules inside ``module`` until `leave` is called."""
        self.leave()
        for number, (name, inner) in enumerate(module.named_modules()):
            if number > _MOST_MODULES:
                break
            label = plain_name(name)
            if inner is module or not label or isinstance(inner, (nn.Sequential, nn.ModuleList)):
                continue
            self._handles.append(inner.register_forward_hook(_after(self, label)))
            if isinstance(inner, _DROPOUTS) and inner.training and inner.p > 0:
                self._handles.append(inner.register_forward_pre_hook(_ahead(self, label)))

    def leave(self) -> None:
        while self._handles:
            self._handles.pop().remove()

    def take(self) -> tuple[RankActivation, ...]:
        """The outputs of the step that ends; forgets them."""
        found = tuple(
            RankActivation(
                name,
                each.digest,
                each.gradient,
                is_declared=each.is_declared,
                input_digest=each.input_digest,
                random_digest=each.random_digest,
            )
            for name, each in self._found.items()
        )
        self._found, self._calls, self._before = {}, {}, {}
        return found

    def begins(self, name: str, args: tuple[Any, ...]) -> None:
        """A dropout begins: keep what it drops, and the random state that it draws from."""
        with self.shield, private.unobserved(), torch.no_grad():
            given = next(_tensors(args), None)
            if given is not None:
                self._before[name] = (tensor_digest(given), tensor_digest(_random_state(given)))

    def ended(self, name: str, output: Any) -> None:
        with self.shield, private.unobserved():
            tensor = next(_tensors(output), None)
            if tensor is None or len(self._found) >= _MOST_ACTIVATIONS:
                return
            placement = _placement(tensor)
            call = self._calls[name] = self._calls.get(name, -1) + 1
            if placement == "other" or plain(tensor) is None:
                return
            found = _Output(tensor_digest(tensor), placement == "replicated")
            found.input_digest, found.random_digest = self._before.pop(name, (0, 0))
            self._found[f"{name} (call {call})" if call else name] = found
            if tensor.requires_grad:
                follow: Any = tensor.register_hook
                follow(_at_gradient(self, found))

    def add_gradient(self, found: _Output, gradient: torch.Tensor) -> None:
        with self.shield, private.unobserved(), torch.no_grad():
            if _placement(gradient) != "other":
                found.gradient = tensor_digest(gradient)


def _placement(tensor: torch.Tensor) -> str:
    """``replicated`` or ``other`` of a DTensor, ``unknown`` of others."""
    placements = getattr(tensor, "placements", None)
    if placements is None:
        return "unknown"
    return "replicated" if all(each.is_replicate() for each in placements) else "other"


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    for each in value if isinstance(value, (tuple, list)) else (value,):
        if isinstance(each, torch.Tensor) and each.is_floating_point():
            yield each


def _random_state(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.device.type == "cuda":
        return torch.cuda.get_rng_state(tensor.device)
    return torch.get_rng_state()


# Functions, not methods: a program may copy a module while it has the hook.


def _ahead(owner: ModuleOutputs, name: str) -> Callable[..., None]:
    def begins(module: nn.Module, args: tuple[Any, ...]) -> None:
        owner.begins(name, args)

    private.hide_from_compiler(begins)
    return begins


def _after(owner: ModuleOutputs, name: str) -> Callable[..., None]:
    def ended(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        owner.ended(name, output)

    private.hide_from_compiler(ended)
    return ended


def _at_gradient(owner: ModuleOutputs, found: _Output) -> Callable[[torch.Tensor], None]:
    def note(gradient: torch.Tensor) -> None:
        owner.add_gradient(found, gradient)

    private.hide_from_compiler(note)
    return note
