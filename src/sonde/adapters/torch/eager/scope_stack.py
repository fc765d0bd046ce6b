"""The stack of modules and optimizers that are running."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import torch
from torch import nn

from sonde.adapters.torch import private
from sonde.adapters.torch.eager.scopes import OpScope, ScopeRegistry
from sonde.adapters.torch.eager.step_tables import Tables

_TORCH = os.path.dirname(os.path.abspath(torch.__file__))
_RUNNERS = {
    # The functions of torch that run a module and an optimizer's step, as their local ``self``.
    (os.path.join(_TORCH, "nn", "modules", "module.py"), "_call_impl"),
    (os.path.join(_TORCH, "optim", "optimizer.py"), "wrapper"),
}

Runner = nn.Module | torch.optim.Optimizer


def running(frame: FrameType | None) -> list[Any]:
    """The modules and optimizers that run in ``frame`` or one that called it, innermost first."""
    return [each.f_locals.get("self") for each in _runner_frames(frame)]


def _runner_frames(frame: FrameType | None) -> Iterator[FrameType]:
    return (
        each
        for each in private.frames_from(frame)
        if (each.f_code.co_filename, each.f_code.co_name) in _RUNNERS
    )


@dataclass(slots=True, eq=False)
class ScopeStack:
    """Keeps ``tables.scope`` the scope that ops run in now. Used from the training thread only."""

    _registry: ScopeRegistry
    _tables: Tables
    _entered: list[tuple[Runner, OpScope]] = field(default_factory=list)

    @property
    def is_inside_module(self) -> bool:
        return any(isinstance(runner, nn.Module) for runner, _ in self._entered)

    @property
    def module(self) -> nn.Module | None:
        """The innermost module that runs."""
        return next(
            (runner for runner, _ in reversed(self._entered) if isinstance(runner, nn.Module)), None
        )

    @property
    def outermost_module(self) -> nn.Module | None:
        return next((runner for runner, _ in self._entered if isinstance(runner, nn.Module)), None)

    def begin_step(self) -> None:
        self._registry.begin_step()

    def enter_module(self, module: nn.Module, frame: FrameType | None = None) -> None:
        """Note that ``module`` begins to run, called by ``frame`` or one that called it."""
        self._enter(module, self._registry.enter(module, self.module, frame))

    def enter_optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        self._enter(optimizer, self._registry.optimizer(optimizer))

    def _enter(self, runner: Runner, scope: OpScope) -> None:
        self._entered.append((runner, scope))
        self._tables.scope = scope

    def leave(self, runner: Runner) -> None:
        """Remove ``runner``, and what was entered inside it and not left after an exception."""
        for position in range(len(self._entered) - 1, -1, -1):
            if self._entered[position][0] is runner:
                del self._entered[position:]
                break
        self.show_top()

    def drop_stale(self, caller: FrameType) -> bool:
        """Remove what an exception ended without a call of `leave`; True if there was any."""
        if not self._entered:
            return False
        alive = set(map(id, running(caller)))
        entered = [(runner, scope) for runner, scope in self._entered if id(runner) in alive]
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
        self._tables.scope = self._entered[-1][1] if self._entered else self._registry.default
