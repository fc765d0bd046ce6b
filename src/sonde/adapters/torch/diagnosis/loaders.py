"""Observes loaders and samplers: the order in which they give the rows of their datasets."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset, RandomSampler
from torch.utils.data.distributed import DistributedSampler

from sonde.adapters.torch.calling_line import caller
from sonde.adapters.torch.diagnosis.loop.calls import OptimizerState
from sonde.adapters.torch.diagnosis.modules import tensors_in
from sonde.adapters.torch.diagnosis.recorder import EvidenceRecorder, shielded
from sonde.core.graph import Source
from sonde.core.interruption import pass_on
from sonde.core.patching import wrap
from sonde.core.weak_table import WeakTable

MOST_ROWS = 20_000
"""Rows of an epoch that are hashed."""
_ITERATOR = torch.utils.data.dataloader._BaseDataLoaderIter


@dataclass(slots=True, eq=False)
class _Epochs:
    source: Source | None
    rows: list[int] = field(default_factory=list)
    finished: list[tuple[int, ...]] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class LoaderCalls:
    """Follows loaders and samplers; ``hashes`` gives the hash of each row of a batch.

    A program may make a new loader of the same dataset in every epoch: the loaders that one line
    iterates over are followed as one until another training begins.
    """

    recorder: EvidenceRecorder
    hashes: Callable[[torch.Tensor], list[int]]
    _loaders: WeakTable[Any, _Epochs] = field(default_factory=WeakTable)
    _datasets: WeakTable[Any, _Epochs] = field(default_factory=WeakTable)
    """The epochs of the last loader of a dataset."""
    _iterators: WeakTable[Any, Any] = field(default_factory=WeakTable)
    _sampler_epochs: WeakTable[Any, list[int]] = field(default_factory=WeakTable)
    _trainings: int = 0

    def install(self, undo: ExitStack) -> None:
        wrap(DataLoader, "__iter__", self._around_iter, undo)
        wrap(_ITERATOR, "__next__", self._around_next, undo)
        wrap(DistributedSampler, "__iter__", self._around_sampler, undo)

    @shielded
    def before_step(self, optimizer: torch.optim.Optimizer, state: OptimizerState) -> None:
        """The first step of an optimizer after the first one begins another training, which may
        have the order of the first on purpose."""
        if not state.seen.steps:
            self._trainings += 1
            if self._trainings > 1:
                self._datasets = WeakTable()

    def _around_iter(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def iterate(loader: Any) -> Any:
            iterator = original(loader)
            self._began(loader, iterator)
            return iterator

        return iterate

    @shielded
    def _began(self, loader: Any, iterator: Any) -> None:
        known = self._loaders.get(loader)
        if known is None:
            known = self._loaders[loader] = self._epochs_of(loader.dataset, caller())
            self._check_generator(loader, known.source)
        known.rows.clear()
        self._iterators[iterator] = loader
        self.recorder.event("epoch-begun", known.source, "DataLoader")

    def _epochs_of(self, dataset: Any, source: Source | None) -> _Epochs:
        """The epochs that a loader made anew goes on with."""
        try:
            known = self._datasets.get(dataset)
            if known is None or known.source != source:
                known = self._datasets[dataset] = _Epochs(source)
        except TypeError as error:  # A list has no weak references.
            pass_on(error)
            known = _Epochs(source)
        return known

    def _around_next(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def following(iterator: Any) -> Any:
            try:
                batch = original(iterator)
            except StopIteration:
                self._ended(iterator)
                raise
            self._gave(iterator, batch)
            return batch

        return following

    @shielded
    def _gave(self, iterator: Any, batch: Any) -> None:
        loader = self._iterators.get(iterator)
        known = None if loader is None else self._loaders.get(loader)
        if known is None or len(known.finished) >= 2 or len(known.rows) >= MOST_ROWS:
            return
        tensors = [each for each in tensors_in(batch) if each.dim() >= 1]
        if tensors:
            known.rows += self.hashes(tensors[0])

    @shielded
    def _ended(self, iterator: Any) -> None:
        """Judge an epoch that has ended."""
        loader = self._iterators.get(iterator)
        known = None if loader is None else self._loaders.get(loader)
        if loader is None or known is None or not known.rows or len(known.finished) >= 2:
            return
        rows, known.rows = tuple(known.rows), []
        known.finished.append(rows)
        distinct = len(set(rows))
        workers = int(getattr(loader, "num_workers", 0))
        is_stream = isinstance(loader.dataset, IterableDataset)
        if is_stream and workers > 1 and distinct > 8 and len(rows) == workers * distinct:
            self.recorder.event(
                "rows-repeated",
                known.source,
                type(loader.dataset).__name__,
                rows=len(rows),
                distinct=distinct,
                workers=workers,
                line=_line_of(type(loader.dataset), "__iter__"),
            )
        shuffles = isinstance(getattr(loader, "sampler", None), RandomSampler)
        is_twice = len(known.finished) == 2 and known.finished[0] == known.finished[1]
        if shuffles and is_twice and distinct > 8:
            self.recorder.event("same-order", known.source, "DataLoader", rows=len(rows))

    def _check_generator(self, loader: Any, source: Source | None) -> None:
        """A generator that a dataset holds is copied into every worker."""
        dataset = loader.dataset
        kinds = (torch.Generator, np.random.Generator, np.random.RandomState, random.Random)
        if getattr(loader, "num_workers", 0) < 2 or loader.worker_init_fn is not None:
            return
        used: set[str] = set()
        for kind in type(dataset).__mro__:
            for name, method in vars(kind).items():
                if name != "__init__":
                    used |= set(getattr(getattr(method, "__code__", None), "co_names", ()))
        for name, value in getattr(dataset, "__dict__", {}).items():
            if isinstance(value, kinds) and name in used:
                self.recorder.event(
                    "generator-in-dataset",
                    source,
                    type(dataset).__name__,
                    attribute=name,
                    workers=loader.num_workers,
                )

    def _around_sampler(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def iterate(sampler: Any) -> Any:
            self._sampled(sampler)
            return original(sampler)

        return iterate

    @shielded
    def _sampled(self, sampler: Any) -> None:
        if not getattr(sampler, "shuffle", False):
            return
        epochs = self._sampler_epochs.get(sampler)
        if epochs is None:
            epochs = self._sampler_epochs[sampler] = []
        epochs.append(int(sampler.epoch))
        if len(epochs) >= 2 and epochs[-1] == epochs[-2]:
            self.recorder.event(
                "sampler-epoch-kept", caller(), type(sampler).__name__, epoch=epochs[-1]
            )


def _line_of(owner: type, name: str) -> str:
    code = getattr(getattr(owner, name, None), "__code__", None)
    return "" if code is None else f"{code.co_filename}:{code.co_firstlineno}"
