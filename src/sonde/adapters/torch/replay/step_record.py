"""What is kept of the running step, in memory, so that it can be executed again.

A record has the events of the step in the order in which they happened: calls of outermost
modules, ops that the program runs between them (its loss), and backward passes. Weights are not
copied: until an optimizer steps they are those of the step. A record is valid until then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import CodeType
from typing import Any, Literal

import torch
from torch import nn

from sonde.adapters.torch.replay.kept_tensor import KeptTensor, tensors_in

SMALL_BYTES = 64 * 2**20
ReasonKind = Literal[
    "closure",  # an optimizer computes the gradients itself, in a closure
    "compiled_function",  # the program calls a compiled function outside of modules
    "collective",  # the module exchanges data with other ranks in its forward or backward pass
    "optimizer_inside",  # an optimizer steps inside a backward or forward pass
    "input_changed",  # an input was overwritten, and no copy of it was kept
    "buffer_changed",  # a buffer was overwritten for the first time, and no copy was kept
    "weights_changed",  # the weights are no longer those of the call
    "gradient_unknown",  # the gradients before the first backward pass are not known
    "gradient_changed",  # the program changed gradients in a way that was not recorded
    "call_failed",  # the module raised
    "call_not_kept",  # more calls than are kept
    "outside_op",  # an op outside the modules cannot be executed again
    "outside_unseen",  # the loss does not come from recorded ops
    "other_thread",  # a module ran in another thread
    "backward_inside",  # a module ran a backward pass or an optimizer inside its forward
    "reduced_gradients",  # gradients were averaged over ranks: a replay has those of one rank
    "recording_failed",
]


@dataclass(frozen=True, slots=True)
class ReplayProblem:
    """Why a part of the step cannot be executed again, or not exactly.

    ``subject`` is the module, parameter, op or optimizer; ``detail`` what else is known.
    """

    kind: ReasonKind
    subject: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class RandomStates:
    """States of random generators: of torch's CPU generator, of Python and of numpy (None if not
    imported), and of the devices in use, by index."""

    cpu: torch.Tensor
    python: Any = None
    numpy: Any = None
    devices: dict[int, torch.Tensor] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AutocastState:
    """Autocast of one device type: whether it is on, its dtype, and whether weights are cached."""

    device: str
    is_enabled: bool
    dtype: torch.dtype
    is_cached: bool


@dataclass(slots=True, eq=False)
class ModuleState:
    """What a forward pass may change in a module, as it was before.

    ``buffers`` and ``attributes`` (numbers, texts, tensors, containers) are those that calls of the
    module are known to change, by the submodule's name and their own. ``training`` is the flag of
    each submodule, in the order of ``modules()``, ``requires_grad`` that of each parameter.
    ``versions``: the sum of the counts of writes to
    the other buffers.
    """

    buffers: dict[tuple[str, str], torch.Tensor] = field(default_factory=dict)
    attributes: dict[tuple[str, str], Any] = field(default_factory=dict)
    training: tuple[bool, ...] = ()
    requires_grad: tuple[bool, ...] = ()
    versions: int = 0


@dataclass(slots=True, eq=False)
class CallOutput:
    """A tensor that a module returned, and the gradient that arrived at it.

    ``path`` is its place in what was returned (``("logits",)``, ``(0, "loss")``); ``gradient`` is
    None if none arrived or it was too large to keep, ``backward`` the number of the backward pass
    in which it arrived.
    """

    path: tuple[Any, ...]
    tensor: KeptTensor
    gradient: torch.Tensor | None = None
    backward: int | None = None

    @property
    def is_small(self) -> bool:
        """Whether its gradient may be kept in any case."""
        return self.tensor.alias.numel() * self.tensor.alias.element_size() <= SMALL_BYTES


@dataclass(eq=False)
class ModuleCall:
    """One call of an outermost module; ``number`` counts the calls of the step.

    ``args`` and ``kwargs`` have a `KeptTensor` for each tensor. ``weight_versions`` is the sum of
    the counts of writes to the parameters when the module was called. ``micro_batch`` counts the
    backward passes before it. ``line``: the code that called it and the line number. ``error``:
    what it raised. ``is_pending``: no backward pass has reached it; ``age`` counts the steps of
    optimizers since.
    """

    number: int
    module: nn.Module
    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    random: RandomStates
    autocast: tuple[AutocastState, ...]
    has_gradients: bool
    state: ModuleState
    weight_versions: int = 0
    micro_batch: int = 0
    outputs: list[CallOutput] = field(default_factory=list)
    error: BaseException | None = None
    is_compiled: bool = False
    line: tuple[CodeType, int] | None = None
    is_pending: bool = False
    age: int = 0

    @property
    def inputs(self) -> Iterator[KeptTensor]:
        """The tensors among the arguments."""
        return tensors_in((self.args, self.kwargs), KeptTensor)

    @property
    def backward(self) -> int | None:
        """The first backward pass that reached an output; None if none did."""
        found = [each.backward for each in self.outputs if each.backward is not None]
        return min(found, default=None)


@dataclass(slots=True, eq=False)
class OutsideOp:
    """A function of torch that the program called outside of modules on something the step made.

    ``line``: the code that called it and the line number. ``random``: the states before it, if it
    draws numbers. ``written``: the tensors that it wrote to, before and after. ``error``: what it
    raised.
    """

    function: Callable[..., Any]
    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    results: Any
    line: tuple[CodeType, int] | None
    has_gradients: bool
    autocast: tuple[AutocastState, ...]
    random: RandomStates | None = None
    written: tuple[tuple[KeptTensor, KeptTensor], ...] = ()
    error: BaseException | None = None

    @property
    def inputs(self) -> Iterator[KeptTensor]:
        """The tensors among the arguments."""
        return tensors_in((self.args, self.kwargs), KeptTensor)

    @property
    def outputs(self) -> Iterator[KeptTensor]:
        return tensors_in(self.results, KeptTensor)


@dataclass(slots=True, eq=False)
class BackwardPass:
    """A call of ``torch.autograd.backward``; ``gradients`` are what it was given for ``roots``.

    ``is_connected``: the roots come from recorded calls only. ``parameter_gradients``: parameters
    and their gradients after it, where the program went on to change gradients.
    """

    number: int
    is_connected: bool
    roots: tuple[KeptTensor, ...]
    gradients: tuple[KeptTensor | None, ...]
    keeps_graph: bool | None = None
    makes_graph: bool = False
    parameter_gradients: list[tuple[torch.Tensor, KeptTensor]] = field(default_factory=list)
    inputs: tuple[KeptTensor, ...] | None = None
    autocast: tuple[AutocastState, ...] = ()
    error: BaseException | None = None


Event = ModuleCall | OutsideOp | BackwardPass


@dataclass(frozen=True, slots=True)
class GradScaling:
    """A GradScaler of the program and the scale of this step."""

    scaler: torch.amp.GradScaler
    scale: float


@dataclass(slots=True, eq=False)
class PriorGradient:
    """The gradient that a parameter had before the first backward pass: zeros, or a copy."""

    parameter: torch.Tensor
    values: torch.Tensor | None


@dataclass(frozen=True, slots=True, eq=False)
class AveragedGradient:
    """A gradient of the training that ranks averaged: what this rank computed itself, None if that
    is not known, and the average, which the optimizer used."""

    own: torch.Tensor | None
    average: torch.Tensor | None


@dataclass(slots=True, eq=False)
class StepRecord:
    """One step, from its first module call to the optimizer that is about to step.

    ``prior_gradients``: by the id of the parameter; those that are not in it had no gradient.
    ``unreplayable``: what cannot be executed again, and why. ``has_optimizer_state``: the optimizer
    has the state with which it stepped, so that it can step again. ``owners``: outermost modules,
    by name, that were not called in this step and have parameters of the optimizer.
    ``averaged_over``: the number of ranks that averaged the gradients; ``averaged``: these, by the
    id of the parameter.
    """

    step: int
    rank: int
    events: list[Event] = field(default_factory=list)
    optimizer: torch.optim.Optimizer | None = None
    has_optimizer_state: bool = False
    owners: dict[str, nn.Module] = field(default_factory=dict)
    scaling: GradScaling | None = None
    prior_gradients: dict[int, PriorGradient] = field(default_factory=dict)
    unreplayable: list[ReplayProblem] = field(default_factory=list)
    averaged_over: int = 1
    averaged: dict[int, AveragedGradient] = field(default_factory=dict)

    @property
    def calls(self) -> list[ModuleCall]:
        return [each for each in self.events if isinstance(each, ModuleCall)]

    @property
    def outside_ops(self) -> list[OutsideOp]:
        return [each for each in self.events if isinstance(each, OutsideOp)]

    @property
    def backward_passes(self) -> list[BackwardPass]:
        return [each for each in self.events if isinstance(each, BackwardPass)]

    def add_reason(self, reason: ReplayProblem) -> None:
        if reason not in self.unreplayable:
            self.unreplayable.append(reason)
