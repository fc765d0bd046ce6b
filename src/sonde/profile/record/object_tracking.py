"""Tracks the loaders and optimizers that a program creates, with the line that created each.

They are created before the profiled steps, once or once per epoch, so tracking costs a step
nothing.
"""

from __future__ import annotations

import math
import os
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.utils.data import DataLoader

from sonde.core.graph import Source
from sonde.core.patching import wrap
from sonde.profile.places import Places

# A model is kept alive until the end of the program only if it takes less of the memory than this.
_KEPT_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class SeenLoader:
    """A DataLoader that fed profiled steps; ``source`` is the line that created it.

    ``loader`` stays alive with this object, so that it can be measured after the program.
    """

    loader: DataLoader[Any]
    source: Source | None
    looped_at: Source | None


@dataclass(frozen=True, slots=True)
class SeenOptimizer:
    """An optimizer that stepped: its class, options and parameters, not the optimizer itself."""

    kind: type[torch.optim.Optimizer]
    options: dict[str, Any]
    parameters: tuple[tuple[tuple[int, ...], torch.dtype, torch.device], ...]
    source: Source | None

    @property
    def nbytes(self) -> int:
        return sum(math.prod(shape) * dtype.itemsize for shape, dtype, _ in self.parameters)


@dataclass(frozen=True, slots=True)
class SeenCall:
    """A call of the outermost module; module and arguments stay alive with this object."""

    module: nn.Module
    args: tuple[Any, ...]
    is_autocast: bool


class ObjectTracker:
    """Records the objects that a program creates while `attached`. Used from the training thread.

    ``loaders`` are those that were iterated when the profile began, or later during it.
    """

    def __init__(self, places: Places) -> None:
        self.loaders: list[SeenLoader] = []
        self.optimizers: list[SeenOptimizer] = []
        self.call: SeenCall | None = None
        self._places = places
        self._created: weakref.WeakKeyDictionary[Any, Source | None] = weakref.WeakKeyDictionary()
        self._optimizers: weakref.WeakSet[torch.optim.Optimizer] = weakref.WeakSet()
        self._latest: tuple[weakref.ref[DataLoader[Any]], Source | None] | None = None
        self._is_profiling = False
        self._call_hook: Any = None

    @contextmanager
    def attached(self) -> Iterator[None]:
        with ExitStack() as undo:
            wrap(DataLoader, "__init__", partial(_calling_after, self._creation), undo)
            wrap(torch.optim.Optimizer, "__init__", partial(_calling_after, self._creation), undo)
            wrap(DataLoader, "__iter__", partial(_calling_after, self._iteration), undo)
            yield

    def begin_profile(self) -> None:
        self._is_profiling = True
        if self._latest is not None:
            loader = self._latest[0]()
            if loader is not None:
                self._keep(loader, self._latest[1])

    def end_profile(self) -> None:
        self._is_profiling = False
        self.stop_watching_calls()

    def watch_first_call(self) -> None:
        """Record the next call of a module that no other module calls.

        Not for compiled programs: a hook of all modules would make compiled code compile again.
        """
        self._call_hook = register_module_forward_pre_hook(self._before_forward)

    def stop_watching_calls(self) -> None:
        if self._call_hook is not None:
            self._call_hook.remove()
            self._call_hook = None

    def _before_forward(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        if self.call is not None:
            return
        try:
            size = sum(each.nbytes for each in module.parameters())
            memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
            if 0 < size < memory * _KEPT_SHARE:
                self.call = SeenCall(module, args, torch.is_autocast_enabled("cpu"))
        except Exception:  # A failure here must not reach the user's forward.
            self.stop_watching_calls()

    def add_optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        """Record an optimizer that steps in a profiled step."""
        if optimizer not in self._optimizers:
            self._optimizers.add(optimizer)
            self.optimizers.append(_describe(optimizer, self._created.get(optimizer)))

    def _creation(self, made: Any) -> None:
        self._created[made] = self._places.innermost(sys._getframe(2))

    def _iteration(self, loader: Any) -> None:
        looped_at = self._places.innermost(sys._getframe(2))
        self._latest = (weakref.ref(loader), looped_at)
        if self._is_profiling:
            self._keep(loader, looped_at)

    def _keep(self, loader: DataLoader[Any], looped_at: Source | None) -> None:
        if not any(seen.loader is loader for seen in self.loaders):
            self.loaders.append(SeenLoader(loader, self._created.get(loader), looped_at))


def _calling_after(
    record: Callable[[Any], None], original: Callable[..., Any]
) -> Callable[..., Any]:
    """The method ``original``, with a call of ``record`` after it."""

    def method(this: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(this, *args, **kwargs)
        record(this)
        return result

    return method


def _describe(optimizer: torch.optim.Optimizer, source: Source | None) -> SeenOptimizer:
    parameters = (each for group in optimizer.param_groups for each in group["params"])
    return SeenOptimizer(
        kind=type(optimizer),
        options=dict(optimizer.defaults),
        parameters=tuple(
            (tuple(each.shape), each.dtype, each.device)
            for each in parameters
            if each.grad is not None
        ),
        source=source,
    )
