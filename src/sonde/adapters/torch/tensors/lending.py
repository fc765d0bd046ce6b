"""Lends the training's memory to pending files, and tracks memory that changes without an op.

A pending file may refer to a tensor's own memory instead of a copy. Such memory is *lent*: the
file's writer is notified before an observed op writes to it. Memory that can be written without an
op (an array of numpy, a buffer given to other code) is *foreign*: it is never lent, and values read
from it before may be out of date. docs/capture.md explains the rules.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch

from sonde.adapters.torch import private
from sonde.adapters.torch.eager.step_inputs import storage_key
from sonde.adapters.torch.eager.step_tables import Tables
from sonde.adapters.torch.guard import FailureGuard
from sonde.adapters.torch.tensors.hold import Lender, TorchHold
from sonde.adapters.torch.tensors.unusual_layouts import local_part
from sonde.core.patching import Undo, call_before


class Loans:
    """Tracks which memory is lent and which is foreign. ``mark_foreign`` may be called from any
    thread, the rest from the training thread only.

    Holds are referenced weakly: a hold dies when its file is written, and with it the memory that
    only it kept alive. While a hold lives, the key of its storage is not used again.
    """

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._lent: dict[int, list[weakref.ref[TorchHold]]] = {}
        self.foreign: set[int] = set()

    def lender(self, tensor: torch.Tensor) -> Lender | None:
        """``lend`` if the memory of ``tensor`` changes only through observed ops, else None. That
        of the local part of a DTensor is not lent: ops name the storage of the DTensor instead."""
        if local_part(tensor) is not tensor:
            return None
        key = storage_key(tensor)
        return self.lend if self._tables.is_fresh(key) and key not in self.foreign else None

    def lend(self, tensor: torch.Tensor, hold: TorchHold) -> None:
        self._lent.setdefault(storage_key(tensor), []).append(weakref.ref(hold))
        self._tables.lends = 1

    def notify_holds(self, key: int) -> None:
        """Notify the holds of storage ``key``: its memory is about to change."""
        for reference in self._lent.pop(key, ()):
            hold = reference()
            if hold is not None and hold.on_change is not None:
                hold.on_change(hold.job)

    def notify_all_holds(self) -> None:
        """Notify all holds: writes are not observed any more."""
        for key in list(self._lent):
            self.notify_holds(key)
        self._tables.lends = 0

    def mark_foreign(self, keys: Iterable[int]) -> None:
        """Mark these storages as foreign: other code may write to them without an op."""
        for key in keys:
            self.notify_holds(key)
            self.foreign.add(key)

    def stop_watching(self) -> None:
        """Notify the holds whose memory has other owners: ops are not observed any more."""
        for references in self._lent.values():
            for hold in filter(None, [reference() for reference in references]):
                if hold.on_change is not None and hold.is_shared():
                    hold.on_change(hold.job)
        self._lent.clear()
        self._tables.lends = 0

    def end_step(self) -> None:
        """Forget holds whose files are written; the others stay lent in the next step."""
        alive = {
            key: [reference for reference in references if reference() is not None]
            for key, references in list(self._lent.items())
        }
        self._lent = {key: references for key, references in alive.items() if references}
        self._tables.lends = int(bool(self._lent))
        self.foreign.clear()


def watch_exposure(
    loans: Loans,
    allocated_again: Callable[[torch.UntypedStorage, int], None],
    failed: Callable[[Exception], None],
    undo: Undo,
) -> None:
    """Mark memory that the program exposes to other code as foreign, until ``undo`` is closed.

    ``allocated_again`` is called with a storage, and its key, that is about to get new memory.
    """
    guard = FailureGuard(failed)

    def mark(key_of: Callable[[Any], int], exposed: Any, *_: Any, **__: Any) -> None:
        with guard, private.without_torch_functions():
            loans.mark_foreign((key_of(exposed),))

    def resize(storage: torch.UntypedStorage, size: int, *_: Any, **__: Any) -> None:
        with guard:
            key = private.storage_id(storage)
            loans.mark_foreign((key,))
            if int(size) > storage.nbytes():
                allocated_again(storage, key)

    call_before(torch.Tensor, "numpy", partial(mark, storage_key), undo)
    call_before(torch.Tensor, "__dlpack__", partial(mark, storage_key), undo)
    call_before(torch.UntypedStorage, "resize_", resize, undo)
