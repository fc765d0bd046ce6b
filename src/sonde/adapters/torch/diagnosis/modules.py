"""Observes calls of modules: which ran, in which mode, with which inputs.

``nn.Module.__call__`` is replaced as long as the program compiles nothing: the compiler must find
torch's own code there.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from sonde.adapters.torch import private
from sonde.adapters.torch.calling_line import caller
from sonde.adapters.torch.diagnosis.recorder import (
    EvidenceRecorder,
    shielded,
    variables_in_own_frame,
)
from sonde.core.graph import Source
from sonde.core.patching import Patch, wrap
from sonde.core.weak_table import WeakTable

NORMALISING = (nn.modules.batchnorm._BatchNorm, nn.modules.instancenorm._InstanceNorm)
DROPPING = (nn.modules.dropout._DropoutNd, nn.AlphaDropout, nn.FeatureAlphaDropout)


@dataclass(slots=True, eq=False)
class RootCall:
    """The last call of a root module with gradients: arguments and result are borrowed until the
    step ends."""

    module: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    source: Source | None
    output: Any = None


@dataclass(slots=True, eq=False)
class RootCounts:
    """How often a root module was called."""

    name: str
    variable: str = ""
    trained: int = 0
    trained_in_eval: int = 0
    first_source: Source | None = None
    last_source: Source | None = None
    eval_source: Source | None = None
    eval_step: int = 0
    train_source: Source | None = None
    is_optimized: bool = False


@dataclass(slots=True, eq=False)
class ModuleCalls:
    """Follows the modules that run; ``on_root`` is called after each outermost call."""

    recorder: EvidenceRecorder
    on_root: list[Callable[[RootCall, bool], None]] = field(default_factory=list)
    on_first: list[Callable[[nn.Module], None]] = field(default_factory=list)
    roots: WeakTable[nn.Module, RootCounts] = field(default_factory=WeakTable)
    losses: WeakTable[nn.Module, str] = field(default_factory=WeakTable)
    """The loss functions that have parameters, and the variables that hold them."""
    calls: WeakTable[nn.Module, list[int]] = field(default_factory=WeakTable)
    """A list of one number for each module, so that counting changes no table."""
    current: list[nn.Module] = field(default_factory=list)
    last: RootCall | None = None
    last_evaluated: RootCall | None = None
    """The last call without gradients of a network that is trained, until the step ends."""
    in_this_step: list[RootCall] = field(default_factory=list)

    def install(self, undo: ExitStack) -> None:
        patch = Patch(nn.Module, "__call__", self._make_call(nn.Module.__call__))
        undo.callback(patch.restore)
        # The compiler would compile the replacement into the network, which then rounds otherwise.
        if private.has_compiled():
            self.recorder.uses_compiler = True
        else:
            patch.install()

        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def compile(*args: Any, **kwargs: Any) -> Any:
                patch.restore()
                self.recorder.uses_compiler = True
                return original(*args, **kwargs)

            return compile

        wrap(torch, "compile", make, undo)
        wrap(nn.Module, "compile", make, undo)
        wrap(nn.Module, "eval", self._make_eval, undo)
        wrap(nn.Module, "train", self._make_train, undo)

    def name(self, module: nn.Module) -> str:
        """The path of ``module`` in a known root, or the name of its class."""
        for root in self.roots:
            for path, each in root.named_modules():
                if each is module and path:
                    return str(path)
        return type(module).__name__

    def step_ended(self) -> None:
        self.in_this_step.clear()
        self.last_evaluated = None

    def _make_call(self, original: Callable[..., Any]) -> Callable[..., Any]:
        current = self.current
        recorder = self.recorder

        def call(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if recorder.is_probing or not recorder.is_on:
                return original(module, *args, **kwargs)
            current.append(module)
            try:
                known = self.calls.get(module)
                if known is None:
                    self._first_call(module)
                else:
                    known[0] += 1
                result = original(module, *args, **kwargs)
            finally:
                current.pop()
            if not current:
                self._root_called(module, args, kwargs, result)
            return result

        return call

    @shielded
    def _first_call(self, module: nn.Module) -> None:
        for action in self.on_first:
            action(module)
        self.calls[module] = [1]

    def count(self, module: nn.Module) -> int:
        """How often ``module`` was called."""
        known = self.calls.get(module)
        return 0 if known is None else known[0]

    def _root_called(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
    ) -> None:
        if not self.recorder.observes or torch.compiler.is_compiling():
            return
        self._note_root(module, args, kwargs, result, torch.is_grad_enabled())

    @shielded
    def _note_root(
        self,
        module: nn.Module,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        result: Any,
        has_gradients: bool,
    ) -> None:
        if is_loss(module, args, kwargs, result):
            if module not in self.losses and next(module.parameters(), None) is not None:
                self.losses[module] = _variable_of(module)
            return
        counts = self.roots.get(module)
        if counts is None:
            counts = self.roots[module] = RootCounts(type(module).__name__)
        if not counts.variable:
            counts.variable = _variable_of(module)
        made = RootCall(module, args, kwargs, caller(), result)
        counts.last_source = made.source
        trained = has_gradients and requires_grad(result)
        if trained:
            counts.trained += 1
            counts.first_source = counts.first_source or made.source
            if not module.training:
                counts.trained_in_eval += 1
            self.last = made
            self.in_this_step.append(made)
            del self.in_this_step[:-8]
        elif counts.trained and not has_gradients:
            self.last_evaluated = made
        for action in self.on_root:
            action(made, trained)

    def _make_eval(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def eval(module: nn.Module) -> Any:
            if module.training and self.recorder.observes:
                self._note_eval(module)
            return original(module)

        return eval

    def _make_train(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def train(module: nn.Module, mode: bool = True) -> Any:
            if mode and self.recorder.observes and module in self.roots:
                self._note_train(module)
            return original(module, mode)

        return train

    @shielded
    def _note_train(self, module: nn.Module) -> None:
        counts = self.roots.get(module)
        source = caller()
        if counts is not None and source is not None:
            counts.train_source = source

    @shielded
    def _note_eval(self, module: nn.Module) -> None:
        source = caller()
        counts = self.roots.get(module)
        if counts is None:
            counts = self.roots[module] = RootCounts(type(module).__name__)
        counts.eval_source = source
        counts.eval_step = self.recorder.step


def _variable_of(module: nn.Module) -> str:
    """The variable that holds ``module`` where it is called, or the attribute of ``self``."""
    for name, value in variables_in_own_frame():
        if value is module:
            return name
        if name == "self":
            held = getattr(value, "__dict__", {}).items()
            found = next((key for key, each in held if each is module), "")
            if found:
                return found
    return "?"


def is_loss(module: nn.Module, args: Any, kwargs: Any, result: Any) -> bool:
    """Whether a module computes a loss from the outputs of others: one of torch's, one without
    parameters, or one that makes a single number of inputs that were computed with gradients."""
    if isinstance(module, nn.modules.loss._Loss) or next(module.parameters(), None) is None:
        return True
    is_single = isinstance(result, torch.Tensor) and result.numel() == 1
    return is_single and requires_grad((args, kwargs))


def requires_grad(value: Any) -> bool:
    """Whether a tensor in ``value``, in any nesting, was computed with gradients."""
    return any(tensor.requires_grad for tensor in tensors_in(value))


def tensors_in(value: Any, depth: int = 4) -> list[torch.Tensor]:
    """The tensors in tuples, lists, dictionaries and objects with fields."""
    if isinstance(value, torch.Tensor):
        return [value]
    if depth == 0:
        return []
    items: list[Any] = []
    if isinstance(value, dict):
        items = list(value.values())
    elif isinstance(value, (list, tuple)):
        items = list(value)
    elif hasattr(value, "__dict__") and not isinstance(value, (nn.Module, type)):
        items = list(vars(value).values())
    return [found for each in items[:32] for found in tensors_in(each, depth - 1)]


def replaced(value: Any, change: Any) -> Any:
    """``value`` with its tensors changed; containers are rebuilt, other objects kept."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, dict):
        return {key: replaced(each, change) for key, each in value.items()}
    if type(value) in (list, tuple):
        return type(value)(replaced(each, change) for each in value)
    return value
