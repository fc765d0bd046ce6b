"""What the memory of the running step holds, and which op ran last.

``Memory`` is the twin of the native ``_match.Matcher`` (``native/match``): the same tables with the
same methods, in Python. The native one also recognises known ops by itself.
"""

from __future__ import annotations

import time
import weakref
from typing import Any, Protocol

from sonde.adapters.torch import private
from sonde.adapters.torch.scopes import Scope
from sonde.adapters.torch.structure import ALIAS, Record, Ref


class Tables(Protocol):
    """The tables of a step. Keys are storages, see ``leaves.storage_key``.

    - ``entry``: what a storage holds now, first, then the tensors over it that are up to date;
    - ``tensor``: what a tensor holds, by its ``_cdata``;
    - ``cause``: the op that ran when autograd had counted so far;
    - fresh storages were made by an observed op of this step;
    - watched storages (and tensors that have none) are forgotten when they die, so that a number
      that is used again means something new. Nothing keeps their memory, or any piece of it;
    - ``now``: a timestamp, microseconds since the epoch, later than the last.
    """

    scope: Scope
    generation: int
    started: int
    lends: int

    def entry(self, key: int, /) -> list[Ref] | None: ...
    def tensor(self, impl: int, /) -> Ref | None: ...
    def cause(self, number: int, /) -> Record | None: ...
    def put(self, kind: int, ref: Ref, key: int, impl: int, /) -> None: ...
    def note(self, record: Record, /) -> None: ...
    def is_fresh(self, key: int, /) -> bool: ...
    def add_fresh(self, key: int, /) -> None: ...
    def watch(self, key: int, thing: object, /) -> None: ...
    def drop(self, key: int, /) -> None: ...
    def now(self) -> int: ...
    def forget(self) -> None: ...


class Memory:
    """See ``Tables``."""

    __slots__ = (
        "_cause",
        "_current",
        "_fresh",
        "_stamp",
        "_tensor",
        "_watchers",
        "at",
        "generation",
        "lends",
        "scope",
        "started",
    )

    def __init__(self) -> None:
        self.scope: Any = None
        self.generation = 0
        self.started = 0
        self.lends = 0
        self.at: Any = None
        self._current: dict[int, list[Ref]] = {}
        self._tensor: dict[int, Ref] = {}
        self._cause: dict[int, Record] = {}
        self._fresh: set[int] = set()
        self._stamp = 0
        self._watchers: dict[int, weakref.ref[Any]] = {}

    def entry(self, key: int, /) -> list[Ref] | None:
        return self._current.get(key)

    def tensor(self, impl: int, /) -> Ref | None:
        return self._tensor.get(impl)

    def cause(self, number: int, /) -> Record | None:
        return self._cause.get(number)

    def put(self, kind: int, ref: Ref, key: int, impl: int, /) -> None:
        entry = self._current.get(key)
        if kind == ALIAS and entry is not None:
            entry.append(ref)
        else:
            self._current[key] = [ref]
        self._tensor[impl] = ref

    def note(self, record: Record, /) -> None:
        self._cause.setdefault(private.sequence_number(), record)

    def is_fresh(self, key: int, /) -> bool:
        return key in self._fresh

    def add_fresh(self, key: int, /) -> None:
        self._fresh.add(key)

    def watch(self, key: int, thing: object, /) -> None:
        if key not in self._watchers:
            self._watchers[key] = weakref.ref(thing, lambda _: self.drop(key))

    def drop(self, key: int, /) -> None:
        self._current.pop(key, None)
        self._fresh.discard(key)
        self._watchers.pop(key, None)

    def now(self) -> int:
        self._stamp = max(self._stamp + 1, time.time_ns() // 1000)
        return self._stamp

    def forget(self) -> None:
        self._watchers.clear()
        self._fresh.clear()
        self._current.clear()
        self._tensor.clear()
        self._cause.clear()
