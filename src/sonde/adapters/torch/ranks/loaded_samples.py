"""Hashes the samples that a rank trains on, and says from which epoch of a DataLoader they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Final

import torch
import xxhash
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _BaseDataLoaderIter

from sonde.adapters.torch.ranks.digests import plain
from sonde.core.patching import wrap
from sonde.core.weak_table import WeakTable
from sonde.ranks.report import LoadedSamples

_MOST_SAMPLES: Final = 256
_MOST_BYTES: Final = 8 << 20


@dataclass(slots=True, eq=False)
class LoaderEpochs:
    """Counts the epochs of each DataLoader. ``current``: of the one that gave the last batch; -1:
    none has. Used from the training thread."""

    shield: Any
    current: int = -1
    _epochs: WeakTable[Any, int] = field(default_factory=WeakTable)
    _of_iterators: WeakTable[Any, int] = field(default_factory=WeakTable)

    def install(self, undo: ExitStack) -> None:
        wrap(DataLoader, "__iter__", self._beginning, undo)
        wrap(_BaseDataLoaderIter, "__next__", self._giving, undo)

    def _beginning(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def begin_epoch(loader: Any) -> Any:
            iterator = original(loader)
            with self.shield:
                known = self._epochs.get(loader)
                epoch = self._epochs[loader] = 0 if known is None else known + 1
                self._of_iterators[iterator] = epoch
            return iterator

        return begin_epoch

    def _giving(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def next_batch(iterator: Any) -> Any:
            batch = original(iterator)
            with self.shield:
                epoch = self._of_iterators.get(iterator)
                self.current = -1 if epoch is None else epoch
            return batch

        return next_batch


def loaded_samples(given: Iterable[Any], epoch: int) -> LoadedSamples | None:
    """The hashes of the samples in the first tensor that has several; None if there is none, or if
    that is large."""
    for each in given:
        values = plain(each) if isinstance(each, torch.Tensor) else None
        if values is None or values.dim() < 2 or values.is_complex():
            continue
        rows = values[:_MOST_SAMPLES]
        if rows.numel() * rows.element_size() > _MOST_BYTES:
            return None
        flat = rows.cpu().contiguous().reshape(len(rows), -1).view(torch.uint8).numpy()
        return LoadedSamples(epoch, tuple(xxhash.xxh3_64_intdigest(row.data) for row in flat))
    return None
