"""Observes the order of calls of a training: clear, backward, unscale, clip, step, scheduler."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from sonde.adapters.torch.calling_line import caller
from sonde.adapters.torch.diagnosis.recorder import EvidenceRecorder, shielded, variables_holding
from sonde.adapters.torch.keras_updates import follow_keras
from sonde.core.graph import Source
from sonde.core.patching import wrap
from sonde.core.weak_table import WeakTable
from sonde.diagnosis.evidence import Number, OptimizerEvidence

CHECKED_PARAMETERS = 4
FEWEST_DISCARDED = 3
"""Backward passes of one line before a step whose gradients were cleared; a program that leaves out
a step now and then has fewer."""
MOST_RATES = 4000


@dataclass(slots=True, eq=False)
class OptimizerState:
    """The calls since the last step of one optimizer."""

    seen: OptimizerEvidence
    is_cleared: bool = True
    backwards: int = 0
    is_cleared_after_backward: bool = False
    is_skipped: bool = False
    has_closure: bool = False
    is_uncleared: bool = False
    is_without_gradient: bool = False
    backwards_before: int = 0
    old_gradients: list[tuple[int, int]] | None = None
    """The gradients before a backward pass and their versions, if they were not cleared."""
    is_added_to: bool = False
    had_gradient: bool = False
    """After the last backward pass."""
    witness: torch.Tensor | None = None
    """A small parameter that backward passes give a gradient other than zero."""
    had_values: bool = False
    """Whether its gradient was not zero after the last backward pass."""
    last_backward: Source | None = None
    discarded: dict[Source | None, int] = field(default_factory=dict)
    """Of each line: its backward passes since the last step whose gradients were cleared."""
    left: list[tuple[int, int]] | None = None
    """The gradients after the last backward pass, if those of its line before were cleared."""

    @property
    def backwards_inside(self) -> int:
        """Backward passes that the closure of the running step ran."""
        return self.backwards - self.backwards_before


@dataclass(slots=True, eq=False)
class TrainingCalls:
    """Follows optimizers and backward passes.

    ``on_backward`` is called with the roots before a backward pass, ``before_step`` and
    ``after_step`` with the optimizer, ``on_step_end`` when a step has ended.
    """

    recorder: EvidenceRecorder
    on_backward: list[Callable[[list[torch.Tensor]], None]] = field(default_factory=list)
    after_backward: list[Callable[[], None]] = field(default_factory=list)
    before_step: list[Callable[[torch.optim.Optimizer, OptimizerState], None]] = field(
        default_factory=list
    )
    after_step: list[Callable[[torch.optim.Optimizer, OptimizerState], None]] = field(
        default_factory=list
    )
    on_step_end: list[Callable[[], None]] = field(default_factory=list)
    states: WeakTable[torch.optim.Optimizer, OptimizerState] = field(default_factory=WeakTable)
    losses: list[float] = field(default_factory=list)
    scale: float = 1.0
    unscaled: float | None = None
    """The loss that a loss scaler has scaled, if scaling made it infinite."""
    _stepping: int = 0

    def install(self, undo: ExitStack) -> None:
        wrap(torch.optim.Optimizer, "__init__", self._after_making, undo)
        wrap(torch.optim.Optimizer, "zero_grad", self._around_clearing, undo)
        wrap(nn.Module, "zero_grad", self._around_module_clearing, undo)
        wrap(torch.autograd, "backward", self._around_backward, undo)
        undo.callback(register_optimizer_step_pre_hook(self._before_step).remove)
        undo.callback(register_optimizer_step_post_hook(self._after_step).remove)
        follow_keras(undo)

    def state_of(self, optimizer: torch.optim.Optimizer) -> OptimizerState:
        known = self.states.get(optimizer)
        if known is None:
            kind = type(optimizer).__name__
            taken = {each.name for each in self.recorder.evidence.optimizers}
            name = kind if kind not in taken else f"{kind} {len(taken) + 1}"
            seen = OptimizerEvidence(name, kind, options=_options(optimizer))
            self.recorder.evidence.optimizers.append(seen)
            known = self.states[optimizer] = OptimizerState(seen)
        return known

    def clipped(self) -> None:
        """The program clipped gradients: these are still those of the last backward pass."""
        for optimizer in list(self.states):
            state = self.state_of(optimizer)
            if state.left is None:
                continue
            now = _versions(optimizer)
            if [each for each, _ in now] == [each for each, _ in state.left]:
                state.left = now

    def skipped(self, optimizer: torch.optim.Optimizer) -> None:
        """A GradScaler left out a step of ``optimizer``."""
        state = self.state_of(optimizer)
        state.seen.skipped += 1
        state.is_skipped = True
        self._reset(state)
        self._end_step()

    def _after_making(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def make(optimizer: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> None:
            original(optimizer, *args, **kwargs)
            self._made(optimizer)

        return make

    @shielded
    def _made(self, optimizer: torch.optim.Optimizer) -> None:
        self.state_of(optimizer).seen.created = caller()

    def _around_clearing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def zero_grad(optimizer: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> Any:
            result = original(optimizer, *args, **kwargs)
            self._cleared(optimizer)
            return result

        return zero_grad

    @shielded
    def _cleared(self, optimizer: torch.optim.Optimizer) -> None:
        state = self.state_of(optimizer)
        state.is_cleared = True
        if state.backwards:
            if not state.is_cleared_after_backward:
                line = state.last_backward
                state.discarded[line] = state.discarded.get(line, 0) + 1
            state.is_cleared_after_backward = True
            state.seen.cleared = caller()

    def _around_module_clearing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def zero_grad(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            result = original(module, *args, **kwargs)
            self._check_cleared()
            return result

        return zero_grad

    @shielded
    def _check_cleared(self) -> None:
        for optimizer in list(self.states):
            if not _has_gradient(optimizer):
                self._cleared(optimizer)

    def _around_backward(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            self._backward_begins(tensors)
            result = original(tensors, *args, **kwargs)
            self._backward_ended()
            return result

        return backward

    @shielded
    def _backward_begins(self, tensors: Any) -> None:
        listed = list(tensors) if isinstance(tensors, (list, tuple)) else [tensors]
        roots = [each for each in listed if isinstance(each, torch.Tensor)]
        source = caller()
        for optimizer in list(self.states):
            state = self.state_of(optimizer)
            state.backwards += 1
            state.is_cleared_after_backward = False
            state.seen.backward = state.last_backward = source
            if not state.is_cleared and not _has_gradient(optimizer):
                state.is_cleared = True
            is_old = state.seen.steps and not state.is_cleared and not state.is_added_to
            state.old_gradients = _versions(optimizer) if is_old else None
        if roots and all(each.is_leaf and each.requires_grad for each in roots):
            held = " ".join(variables_holding(roots[0])[:1])
            self.recorder.event("loss-without-graph", source, held)
        if not self.recorder.step and roots:
            for name in variables_holding(roots[0])[:1]:
                self.recorder.event("loss-held", source, name)
        if len(roots) == 1 and roots[0].numel() == 1 and not roots[0].is_complex():
            loss = float(roots[0]) / self.scale if self.unscaled is None else self.unscaled
            self.recorder.loss, self.unscaled = loss, None
            self.losses.append(self.recorder.loss)
        for action in self.on_backward:
            action(roots)

    @shielded
    def _backward_ended(self) -> None:
        for optimizer in list(self.states):
            state = self.state_of(optimizer)
            state.had_gradient = any(each.grad is not None for each in parameters_of(optimizer))
            if state.witness is None or not _is_nonzero(state.witness.grad):
                state.witness = _witness(optimizer)
            state.had_values = state.witness is not None
            if state.old_gradients is not None:
                state.is_added_to = state.old_gradients != _versions(optimizer)
                state.old_gradients = None
            is_last = state.discarded.get(state.last_backward, 0) >= FEWEST_DISCARDED
            state.left = _versions(optimizer) if is_last else None
        for action in self.after_backward:
            action()

    @shielded
    def _before_step(
        self, optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self._stepping += 1
        if self._stepping > 1:
            return
        state = self.state_of(optimizer)
        seen = state.seen
        state.has_closure = any(callable(each) for each in (*args[1:], *kwargs.values()))
        seen.stepped = caller()
        if not seen.steps:
            seen.variable = next(iter(variables_holding(optimizer)), "")
        seen.rates.append(float(optimizer.param_groups[0].get("lr") or 0.0))
        del seen.rates[:-MOST_RATES]
        state.backwards_before = state.backwards
        state.is_uncleared = bool(state.backwards and not state.is_cleared and state.is_added_to)
        is_cleared = (
            state.is_cleared_after_backward
            or (state.had_gradient and all(each.grad is None for each in parameters_of(optimizer)))
            or (
                state.witness is not None
                and state.had_values
                and not _is_nonzero(state.witness.grad)
            )
        )
        state.is_without_gradient = is_cleared and not _has_gradient(optimizer, every=True)
        if state.left is not None and not is_cleared and state.left == _versions(optimizer):
            seen.steps_of_last += 1
            seen.discarded += state.discarded[state.last_backward]
        for action in self.before_step:
            action(optimizer, state)

    @shielded
    def _after_step(
        self, optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self._stepping -= 1
        if self._stepping:
            return
        state = self.state_of(optimizer)
        seen = state.seen
        if not state.backwards_inside:  # Trainers pass closures that do nothing.
            if state.is_uncleared:
                seen.first_uncleared = seen.first_uncleared or self.recorder.step
                seen.uncleared += 1
            seen.cleared_before += state.is_without_gradient
        seen.steps += 1
        state.is_skipped = False
        for action in self.after_step:
            action(optimizer, state)
        self._reset(state)
        self._end_step()

    def _reset(self, state: OptimizerState) -> None:
        state.is_cleared = False
        state.is_added_to = False
        state.had_gradient = False
        state.had_values = False
        state.backwards = 0
        state.is_cleared_after_backward = False
        state.discarded.clear()
        state.left = None

    def _end_step(self) -> None:
        evidence = self.recorder.evidence
        values = self.losses or evidence.losses[-1:]
        evidence.losses.append(sum(values) / len(values) if values else 0.0)
        self.losses.clear()
        evidence.steps += 1
        self.recorder.step += 1
        for action in self.on_step_end:
            action()


def parameters_of(optimizer: torch.optim.Optimizer) -> Iterator[torch.Tensor]:
    for group in getattr(optimizer, "param_groups", ()):
        yield from group["params"]


def _versions(optimizer: torch.optim.Optimizer) -> list[tuple[int, int]]:
    """Which gradients the parameters have, and how often each was written to."""
    held = [parameter.grad for parameter in parameters_of(optimizer)]
    return [(id(each), 0 if each is None else each._version) for each in held]


def _has_gradient(optimizer: torch.optim.Optimizer, *, every: bool = False) -> bool:
    """Whether parameters of ``optimizer`` hold gradients other than zero: the first few that have
    one are looked at, or every one."""
    checked = 0
    for parameter in parameters_of(optimizer):
        if parameter.grad is None:
            continue
        if _is_nonzero(parameter.grad):
            return True
        checked += 1
        if checked == CHECKED_PARAMETERS and not every:
            return False
    return False


def _witness(optimizer: torch.optim.Optimizer) -> torch.Tensor | None:
    """A parameter with a gradient other than zero, of the few smallest ones."""
    held = [each for each in parameters_of(optimizer) if each.grad is not None]
    held.sort(key=lambda each: each.numel())
    return next((each for each in held[:CHECKED_PARAMETERS] if _is_nonzero(each.grad)), None)


def _is_nonzero(gradient: torch.Tensor | None) -> bool:
    if gradient is None:
        return False
    values = gradient._values() if gradient.is_sparse else gradient
    return bool(values.ne(0).any())


def _options(optimizer: torch.optim.Optimizer) -> dict[str, Number]:
    groups: Iterable[dict[str, Any]] = getattr(optimizer, "param_groups", ())
    options: dict[str, Number] = {}
    for group in groups:
        for name, value in group.items():
            if isinstance(value, (bool, int, float, str)) and name not in options:
                options[name] = value
    return options
