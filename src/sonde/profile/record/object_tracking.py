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
from contextlib import ExitStack, contextmanager, suppress
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

# The attribute of a loader's iterator that describes the loader.
_SEEN = "_sonde_seen_loader"


@dataclass(frozen=True, slots=True)
class LoaderParts:
    """What a DataLoader is made of: enough to load the same batches in another process.

    The parts do not include the loader itself. A loader with persistent workers holds its iterator,
    so an iterator that held the loader would keep the workers running. The iterator has the dataset
    and the samplers anyway.
    """

    dataset: Any
    sampler: Any
    batch_sampler: Any
    collate_fn: Callable[..., Any]
    worker_init_fn: Callable[..., Any] | None
    num_workers: int
    batch_size: int | None
    pin_memory: bool

    @classmethod
    def of(cls, loader: DataLoader[Any]) -> LoaderParts:
        return cls(
            loader.dataset,
            loader.sampler,
            loader.batch_sampler,
            loader.collate_fn,
            loader.worker_init_fn,
            loader.num_workers,
            loader.batch_size,
            bool(loader.pin_memory),
        )


@dataclass(frozen=True, slots=True)
class SeenLoader:
    """A DataLoader that fed profiled steps; ``source`` is the line that created it.

    Its parts stay alive with this object, so that it can be measured after the program.
    """

    loader: LoaderParts
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

    ``loaders`` are those that were iterated when the profile began, or later during it. The program
    may hold nothing of a loader but its iterator (``for x in DataLoader(...)``); so the iterator
    gets the description of its loader as an attribute, and this object refers to it weakly.
    """

    def __init__(self, places: Places) -> None:
        self.loaders: list[SeenLoader] = []
        self.optimizers: list[SeenOptimizer] = []
        self.call: SeenCall | None = None
        self._places = places
        self._created: weakref.WeakKeyDictionary[Any, Source | None] = weakref.WeakKeyDictionary()
        self._optimizers: weakref.WeakSet[torch.optim.Optimizer] = weakref.WeakSet()
        self._latest: weakref.ref[Any] | None = None
        self._is_profiling = False
        self._call_hook: Any = None

    @contextmanager
    def attached(self) -> Iterator[None]:
        with ExitStack() as undo:
            created, iterated = self._creation, self._iteration
            wrap(DataLoader, "__init__", partial(_calling_after, created), undo)
            wrap(torch.optim.Optimizer, "__init__", partial(_calling_after, created), undo)
            wrap(DataLoader, "__iter__", partial(_calling_after, iterated), undo)
            yield

    def begin_profile(self) -> None:
        self._is_profiling = True
        iterator = self._latest() if self._latest is not None else None
        if iterator is not None:
            self._keep(getattr(iterator, _SEEN))

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

    def _creation(self, made: Any, _: None) -> None:
        self._created[made] = self._places.innermost(sys._getframe(2))

    def _iteration(self, loader: Any, iterator: Any) -> None:
        looped_at = self._places.innermost(sys._getframe(2))
        seen = SeenLoader(LoaderParts.of(loader), self._created.get(loader), looped_at)
        setattr(iterator, _SEEN, seen)
        self._latest = weakref.ref(iterator)
        if self._is_profiling:
            self._keep(seen)

    def _keep(self, found: SeenLoader) -> None:
        """Keep a loader once, also if it is created anew by the same line in every epoch."""
        dataset, sampler = found.loader.dataset, found.loader.sampler
        for seen in self.loaders:
            is_same_line = found.source is not None and seen.source == found.source
            if seen.loader.dataset is dataset and (is_same_line or seen.loader.sampler is sampler):
                return
        self.loaders.append(found)


def _calling_after(
    record: Callable[[Any, Any], None], original: Callable[..., Any]
) -> Callable[..., Any]:
    """The method ``original``, with a call of ``record`` after it, which gets the object and the
    result. If ``record`` fails, the program does not notice."""

    def method(this: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(this, *args, **kwargs)
        with suppress(Exception):
            record(this, result)
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
