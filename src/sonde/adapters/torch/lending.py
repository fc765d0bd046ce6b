"""Memory of the training that others read later, and memory that may change behind our back.

A pending file may refer to a tensor's own memory instead of a copy. Such memory is *lent*: whoever
reads it is warned before an observed op writes to it. Memory that can be written without any op
(an array of numpy's, a buffer handed to other code) is *foreign*: it is never lent, and what was
read from it before says nothing about what it holds now.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any

import torch

from sonde.adapters.torch.leaves import storage_key
from sonde.adapters.torch.memory import Tables
from sonde.adapters.torch.views import TorchHold

Lender = Callable[[torch.Tensor, TorchHold], None]


class Loans:
    """What is lent and what is foreign. ``distrust`` may be called from any thread, the rest from
    the training thread only.

    Holds are referred to weakly: they die when their file is written, and with them the memory
    that only they kept. While a hold lives, the number of its storage is not used again.
    """

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._lent: dict[int, list[weakref.ref[TorchHold]]] = {}
        self.foreign: set[int] = set()

    def lender(self, tensor: torch.Tensor) -> Lender | None:
        """``lend`` if the memory of ``tensor`` changes only through observed ops, else None."""
        key = storage_key(tensor)
        return self.lend if self._tables.is_fresh(key) and key not in self.foreign else None

    def lend(self, tensor: torch.Tensor, hold: TorchHold) -> None:
        self._lent.setdefault(storage_key(tensor), []).append(weakref.ref(hold))
        self._tables.lends = 1

    def call_back(self, key: int) -> None:
        """The memory of storage ``key`` is about to change."""
        for reference in self._lent.pop(key, ()):
            hold = reference()
            if hold is not None and hold.on_change is not None:
                hold.on_change(hold.job)

    def call_back_all(self) -> None:
        """Nobody will watch the memory from here on."""
        for key in list(self._lent):
            self.call_back(key)
        self._tables.lends = 0

    def distrust(self, keys: Iterable[int]) -> None:
        """From here on others may write to the memory of these storages without an op."""
        for key in keys:
            self.call_back(key)
            self.foreign.add(key)

    def alive_bytes(self) -> int:
        """Bytes of lent memory whose files are not written yet."""
        holds = [reference() for references in self._lent.values() for reference in references]
        return sum(hold.nbytes for hold in holds if hold is not None)

    def stop_watching(self) -> None:
        """Ops run unobserved from here on: what others than the holds own may change."""
        for references in self._lent.values():
            for hold in filter(None, [reference() for reference in references]):
                if hold.on_change is not None and hold.is_shared():
                    hold.on_change(hold.job)
        self._lent.clear()
        self._tables.lends = 0

    def end_step(self) -> None:
        """What is written already needs no warning; the rest stays lent in the next step."""
        alive = {
            key: [reference for reference in references if reference() is not None]
            for key, references in list(self._lent.items())
        }
        self._lent = {key: references for key, references in alive.items() if references}
        self._tables.lends = int(bool(self._lent))
        self.foreign.clear()


def watch_exposure(loans: Loans, failed: Callable[[Exception], None], undo: ExitStack) -> None:
    """Tell ``loans`` when the program takes memory out of torch's hands; ``undo`` ends it."""
    for owner, name in ((torch.Tensor, "numpy"), (torch.Tensor, "__dlpack__")):
        _watch(owner, name, lambda tensor: loans.distrust((storage_key(tensor),)), failed, undo)
    _watch(
        torch.UntypedStorage,
        "resize_",
        lambda storage: loans.distrust((int(storage._cdata),)),
        failed,
        undo,
    )


def _watch(
    owner: type,
    name: str,
    told: Callable[[Any], None],
    failed: Callable[[Exception], None],
    undo: ExitStack,
) -> None:
    original = getattr(owner, name)
    is_inherited = name not in owner.__dict__

    @functools.wraps(original)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            told(self)
        except Exception as error:
            failed(error)
        return original(self, *args, **kwargs)

    def put_back() -> None:
        if owner.__dict__.get(name) is not method:
            return  # somebody else has replaced it since
        if is_inherited:
            delattr(owner, name)
        else:
            setattr(owner, name, original)

    setattr(owner, name, method)
    undo.callback(put_back)
