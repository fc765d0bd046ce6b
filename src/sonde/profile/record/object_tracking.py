"""Tracks the loaders, optimizers and data-parallel wrappers a program makes, with their lines.

They are made before the profiled steps, once or once an epoch, so tracking costs a step nothing.
"""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.utils.data import DataLoader

from sonde.core.graph import Source
from sonde.core.patching import wrap
from sonde.profile.places import Places

# A model is kept alive until the end of the program only if it is small for this machine.
_KEPT_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class SeenLoader:
    """A DataLoader that fed profiled steps; ``source`` is where it was made.

    ``loader`` stays alive with this object, so that it can be measured after the program.
    """

    loader: DataLoader[Any]
    source: Source | None
    looped_at: Source | None


@dataclass(frozen=True, slots=True)
class SeenOptimizer:
    """An optimizer that stepped: how it was made and of what, not the optimizer itself."""

    kind: type[torch.optim.Optimizer]
    options: dict[str, Any]
    parameters: tuple[tuple[tuple[int, ...], torch.dtype, torch.device], ...]
    source: Source | None

    @property
    def nbytes(self) -> int:
        return sum(_count(shape) * dtype.itemsize for shape, dtype, _ in self.parameters)


@dataclass(frozen=True, slots=True)
class SeenCall:
    """A call of the outermost module; module and arguments stay alive with this object."""

    module: nn.Module
    args: tuple[Any, ...]
    is_autocast: bool


class ObjectTracker:
    """Remembers what a program makes while `attached`. Used from the training thread.

    ``loaders`` are those that were being iterated when the profile began, or began to be in it.
    """

    def __init__(self, places: Places) -> None:
        self.loaders: list[SeenLoader] = []
        self.optimizers: list[SeenOptimizer] = []
        self._places = places
        self._made: weakref.WeakKeyDictionary[Any, Source | None] = weakref.WeakKeyDictionary()
        self._optimizers: weakref.WeakSet[torch.optim.Optimizer] = weakref.WeakSet()
        self._latest: tuple[weakref.ref[DataLoader[Any]], Source | None] | None = None
        self._is_profiling = False
        self.call: SeenCall | None = None
        self._call_hook: Any = None
        self._is_call_unseen = False

    @contextmanager
    def attached(self) -> Iterator[None]:
        owners: tuple[tuple[type, str, Callable[[Any], None]], ...] = (
            (DataLoader, "__init__", self._remember),
            (torch.optim.Optimizer, "__init__", self._remember),
            (DataLoader, "__iter__", self._iterated),
        )
        with ExitStack() as undo:
            for owner, name, noted in owners:
                wrap(owner, name, _noting(noted), undo)
            yield

    def profile_begins(self) -> None:
        self._is_profiling = True
        if self._latest is not None:
            loader = self._latest[0]()
            if loader is not None:
                self._keep(loader, self._latest[1])

    def profile_ends(self) -> None:
        self._is_profiling = False
        self.stop_watching_calls()

    def watch_first_call(self) -> None:
        """Look at the next call of a module from outside any.

        A hook of all modules would make compiled code compile again: not for compiled programs.
        """
        self._call_hook = register_module_forward_pre_hook(self._called)

    def stop_watching_calls(self) -> None:
        if self._call_hook is not None:
            self._call_hook.remove()
            self._call_hook = None

    def _called(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        if self.call is not None or self._is_call_unseen:
            return
        try:
            self._note_call(module, args)
        except Exception:  # inside the user's forward: what cannot be looked at is left alone
            self._is_call_unseen = True

    def _note_call(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        size = sum(each.nbytes for each in module.parameters())
        if 0 < size < _memory_bytes() * _KEPT_SHARE:
            self.call = SeenCall(module, args, torch.is_autocast_enabled("cpu"))

    def steps(self, optimizer: torch.optim.Optimizer) -> None:
        """An optimizer steps in a step that is profiled."""
        if optimizer not in self._optimizers:
            self._optimizers.add(optimizer)
            self.optimizers.append(_describe(optimizer, self._made.get(optimizer)))

    def _remember(self, made: Any) -> None:
        self._made[made] = self._places.innermost(sys._getframe(2))

    def _iterated(self, loader: Any) -> None:
        looped_at = self._places.innermost(sys._getframe(2))
        self._latest = (weakref.ref(loader), looped_at)
        if self._is_profiling:
            self._keep(loader, looped_at)

    def _keep(self, loader: DataLoader[Any], looped_at: Source | None) -> None:
        if not any(seen.loader is loader for seen in self.loaders):
            self.loaders.append(SeenLoader(loader, self._made.get(loader), looped_at))


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _noting(noted: Callable[[Any], None]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def method(this: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(this, *args, **kwargs)
            noted(this)
            return result

        return method

    return make


def _describe(optimizer: torch.optim.Optimizer, source: Source | None) -> SeenOptimizer:
    return SeenOptimizer(
        kind=type(optimizer),
        options=dict(optimizer.defaults),
        parameters=tuple(
            (tuple(each.shape), each.dtype, each.device)
            for group in optimizer.param_groups
            for each in group["params"]
            if each.grad is not None
        ),
        source=source,
    )


def _count(shape: tuple[int, ...]) -> int:
    total = 1
    for size in shape:
        total *= size
    return total
