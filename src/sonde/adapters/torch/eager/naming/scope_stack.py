"""The stack of modules and optimizers that are running."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from inspect import unwrap
from types import CodeType, FrameType
from typing import Any, NamedTuple

import torch
from torch import nn

from sonde.adapters.torch import private
from sonde.adapters.torch.eager.naming.scopes import OpScope, ScopeRegistry
from sonde.adapters.torch.eager.step_tables import Tables

_TORCH = os.path.dirname(os.path.abspath(torch.__file__))
_RUNNERS = {
    # The functions of torch that run a module and an optimizer's step, as their local ``self``.
    (os.path.join(_TORCH, "nn", "modules", "module.py"), "_call_impl"),
    (os.path.join(_TORCH, "optim", "optimizer.py"), "wrapper"),
}

_RUNNER_NAMES = frozenset(name for _, name in _RUNNERS)

Runner = nn.Module | torch.optim.Optimizer


def running(frame: FrameType | None) -> list[Any]:
    """The modules and optimizers that run in ``frame`` or one that called it, innermost first."""
    return [each.f_locals.get("self") for each in _runner_frames(frame)]


def outermost_call(frame: FrameType | None) -> tuple[nn.Module, Any, Any] | None:
    """The outermost module that runs in ``frame`` or one that called it, and its arguments. For
    processes that end soon: the frame keeps the values of its variables."""
    for each in reversed(list(_runner_frames(frame))):
        found = each.f_locals
        if isinstance(found.get("self"), nn.Module):
            return found["self"], found.get("args", ()), found.get("kwargs", {})
    return None


def _runner_frames(frame: FrameType | None) -> Iterator[FrameType]:
    return (
        each
        for each in private.frames_from(frame)
        if each.f_code.co_name in _RUNNER_NAMES
        and (each.f_code.co_filename, each.f_code.co_name) in _RUNNERS
    )


class _Entered(NamedTuple):
    """What runs; ``closure`` is the code of the function that an optimizer's ``step`` was given."""

    runner: Runner
    scope: OpScope
    closure: CodeType | None = None


@dataclass(slots=True, eq=False)
class ScopeStack:
    """Keeps ``tables.scope`` the scope that ops run in now. Used from the training thread only."""

    _registry: ScopeRegistry
    _tables: Tables
    _entered: list[_Entered] = field(default_factory=list)

    @property
    def is_inside_module(self) -> bool:
        return any(isinstance(each.runner, nn.Module) for each in self._entered)

    @property
    def module(self) -> nn.Module | None:
        """The innermost module that runs."""
        runners = (each.runner for each in reversed(self._entered))
        return next((runner for runner in runners if isinstance(runner, nn.Module)), None)

    def scope_at(self, caller: FrameType) -> OpScope:
        """The scope of an op that ``caller`` runs now.

        It is ``tables.scope``, except in a function that an optimizer's ``step`` was given and
        calls: such a closure computes the loss and its gradients, so it belongs to the scope from
        which ``step`` was called. ``tables.scope`` stays the optimizer's there: torch does not say
        when an optimizer calls its closure.
        """
        scope: OpScope = self._tables.scope
        if scope.phase != "optimizer":
            return scope
        codes: set[CodeType] | None = None  # Found only if there is a closure.
        for each in reversed(self._entered):
            if each.closure is None:
                return each.scope
            codes = codes or {frame.f_code for frame in private.frames_from(caller)}
            if each.closure not in codes:
                return each.scope
        return self._registry.default

    @property
    def outermost_module(self) -> nn.Module | None:
        runners = (each.runner for each in self._entered)
        return next((runner for runner in runners if isinstance(runner, nn.Module)), None)

    def begin_step(self) -> None:
        self._registry.begin_step()

    def enter_module(self, module: nn.Module, frame: FrameType | None = None) -> None:
        """Note that ``module`` begins to run, called by ``frame`` or one that called it."""
        self._enter(_Entered(module, self._registry.enter(module, self.module, frame)))

    def enter_optimizer(
        self, optimizer: torch.optim.Optimizer, closure: Callable[..., Any] | None = None
    ) -> None:
        scope = self._registry.optimizer(optimizer)
        self._enter(_Entered(optimizer, scope, _code_of(closure)))

    def _enter(self, entered: _Entered) -> None:
        self._entered.append(entered)
        self._tables.scope = entered.scope

    def leave(self, runner: Runner) -> None:
        """Remove ``runner``, and what was entered inside it and not left after an exception."""
        for position in range(len(self._entered) - 1, -1, -1):
            if self._entered[position].runner is runner:
                del self._entered[position:]
                break
        self.show_top()

    def drop_stale(self, caller: FrameType) -> bool:
        """Remove what an exception ended without a call of `leave`; True if there was any."""
        if not self._entered:
            return False
        alive = set(map(id, running(caller)))
        entered = [each for each in self._entered if id(each.runner) in alive]
        is_changed = len(entered) != len(self._entered)
        if is_changed:
            self._entered = entered
            self.show_top()
        return is_changed

    def restart(self) -> None:
        """Fill the stack, when observation begins, with the modules that are already running."""
        self._entered.clear()
        for frame in reversed(list(_runner_frames(sys._getframe(1)))):
            runner = frame.f_locals.get("self")
            if isinstance(runner, nn.Module):
                self.enter_module(runner, frame)
        self.show_top()

    def show_top(self) -> None:
        """Make the innermost entered scope the scope of the ops that run next."""
        self._tables.scope = self._entered[-1].scope if self._entered else self._registry.default


def _code_of(closure: Callable[..., Any] | None) -> CodeType | None:
    """The code that runs when ``closure`` is called; None if it is not Python's."""
    while isinstance(closure, partial):
        closure = closure.func
    if closure is None:
        return None
    function: Any = unwrap(closure)
    if not hasattr(function, "__code__"):
        function = unwrap(type(closure).__call__)
    return getattr(function, "__code__", None)
