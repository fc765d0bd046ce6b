"""Hashes the outputs of modules and their gradients, where ranks are tensor-parallel.

Hooks are put on the modules inside an outermost one for a call of a compared step, and are taken
away when it ends. A hook on an output gets its gradient, as the backward pass has added it up.
Functions that drop values are replaced for the same time: those that draw random numbers count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import torch
from torch import nn
from torch.nn import functional

from sonde.adapters.torch import private
from sonde.adapters.torch.calling_line import calling_line
from sonde.adapters.torch.ranks.digests import plain, tensor_digest
from sonde.adapters.torch.ranks.layout import plain_name
from sonde.adapters.torch.ranks.non_finite.followed_modules import is_compiled
from sonde.core.patching import Removals, wrap
from sonde.ranks.report import RankActivation

_MOST_MODULES: Final = 2000
_MOST_ACTIVATIONS: Final = 5000
_DROPPING: Final = (
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "alpha_dropout",
    "feature_alpha_dropout",
    "scaled_dot_product_attention",
)
"""Functions of ``torch.nn.functional``."""
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
    source: str = ""


@dataclass(slots=True, eq=False)
class ModuleOutputs:
    """The outputs of the modules of the running step, by the name of the module and the number of
    the call. ``shield`` takes failures of Sonde."""

    shield: Any
    _found: dict[str, _Output] = field(default_factory=dict)
    _calls: dict[str, int] = field(default_factory=dict)
    _before: dict[str, tuple[int, int]] = field(default_factory=dict)
    _handles: list[Any] = field(default_factory=list)
    _replaced: Removals = field(default_factory=Removals)
    _entry: RankActivation | None = None

    def follow(self, module: nn.Module) -> None:
        """Follow the modules inside ``module`` until `leave` is called."""
        self.leave()
        if not is_compiled(module):
            for function in _DROPPING:
                wrap(functional, function, partial(_drawing, self, function), self._replaced)
        for number, (name, inner) in enumerate(module.named_modules()):
            if number > _MOST_MODULES:
                break
            label = plain_name(name)
            if inner is module or not label or isinstance(inner, (nn.Sequential, nn.ModuleList)):
                continue
            self._handles.append(inner.register_forward_hook(_after(self, label)))
            if any(hasattr(each, "device_mesh") for each in inner.parameters(recurse=False)):
                self._handles.append(inner.register_forward_pre_hook(_entering(self, label)))
            if isinstance(inner, _DROPOUTS) and inner.training and inner.p > 0:
                self._handles.append(inner.register_forward_pre_hook(_ahead(self, label)))

    def leave(self) -> None:
        self._replaced.close()
        self._before = {}
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
                source=each.source,
            )
            for name, each in self._found.items()
        )
        self._found, self._calls = {}, {}
        return found

    def take_entry(self) -> RankActivation | None:
        """The first input of the step that a module takes as a DTensor: where the program says how
        its batches are laid out. Without a hash if it is not replicated."""
        found, self._entry = self._entry, None
        return found

    def enters(self, name: str, args: tuple[Any, ...]) -> None:
        """A sharded module begins."""
        if self._entry is not None:
            return
        with self.shield, private.unobserved(), torch.no_grad():
            given = next((each for each in args if hasattr(each, "device_mesh")), None)
            if given is not None:
                is_replicated = _placement(given) == "replicated"
                digest = tensor_digest(given) if is_replicated else 0
                self._entry = RankActivation(name, digest, is_declared=is_replicated)

    def begins(self, name: str, args: tuple[Any, ...]) -> None:
        """A dropout begins: keep what it drops, and the random state that it draws from."""
        with self.shield, private.unobserved(), torch.no_grad():
            given = next(tensors_of(args), None)
            if given is not None:
                self._before[name] = (tensor_digest(given), tensor_digest(_random_state(given)))

    def called(self, function: str, args: tuple[Any, ...]) -> str:
        """A function that may drop values begins; its name, empty inside a dropout module."""
        name = ""
        with self.shield:
            if not self._before:
                name = f"{function} at {calling_line()}"
                self.begins(name, args)
        return name

    def returned(self, name: str, args: tuple[Any, ...], output: Any) -> None:
        """The function ``name`` has returned: keep its output if it has drawn random numbers."""
        with self.shield, private.unobserved(), torch.no_grad():
            given = next(tensors_of(args), None)
            before = self._before.get(name)
            has_drawn = (
                given is not None
                and before is not None
                and tensor_digest(_random_state(given)) != before[1]
            )
        if has_drawn:
            self.ended(name, output, calling_line())
        self._before.pop(name, None)

    def ended(self, name: str, output: Any, source: str = "") -> None:
        with self.shield, private.unobserved():
            tensor = next(tensors_of(output), None)
            if tensor is None or len(self._found) >= _MOST_ACTIVATIONS:
                return
            placement = _placement(tensor)
            call = self._calls[name] = self._calls.get(name, -1) + 1
            if placement == "other" or plain(tensor) is None:
                return
            found = _Output(tensor_digest(tensor), placement == "replicated", source=source)
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


def tensors_of(value: Any) -> Iterator[torch.Tensor]:
    """The floating-point tensors in the arguments or the result of a module."""
    for each in value if isinstance(value, (tuple, list)) else (value,):
        if isinstance(each, torch.Tensor) and each.is_floating_point():
            yield each


def _random_state(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.device.type == "cuda":
        return torch.cuda.get_rng_state(tensor.device)
    return torch.get_rng_state()


def _drawing(
    owner: ModuleOutputs, function: str, original: Callable[..., Any]
) -> Callable[..., Any]:
    def draw(*args: Any, **kwargs: Any) -> Any:
        given = (*args, *kwargs.values())
        name = owner.called(function, given)
        result = original(*args, **kwargs)
        if name:
            owner.returned(name, given, result)
        return result

    private.hide_from_compiler(draw)
    return draw


# Functions, not methods: a program may copy a module while it has the hook.


def _ahead(owner: ModuleOutputs, name: str) -> Callable[..., None]:
    def begins(module: nn.Module, args: tuple[Any, ...]) -> None:
        owner.begins(name, args)

    private.hide_from_compiler(begins)
    return begins


def _entering(owner: ModuleOutputs, name: str) -> Callable[..., None]:
    def begins(module: nn.Module, args: tuple[Any, ...]) -> None:
        owner.enters(name, args)

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
