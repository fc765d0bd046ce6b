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
    - ``now``: a timestamp, microseconds since the epoch, later than the last;
    - ``own_seconds``: how long our own work took, with what goes on now, counted while
      ``counts_time`` is set; ``visits``: how many ops came to be observed. ``begin_work`` says
      whether our work begins there: not where it goes on already, or nobody counts.
    """

    scope: Scope
    generation: int
    started: int
    lends: int
    counts_time: int
    visits: int

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
    def begin_work(self) -> bool: ...
    def end_work(self) -> None: ...
    def own_seconds(self) -> float: ...
    def forget(self) -> None: ...


class Memory:
    """See ``Tables``."""

    __slots__ = (
        "_cause",
        "_current",
        "_fresh",
        "_since",
        "_spent",
        "_stamp",
        "_tensor",
        "_watchers",
        "at",
        "counts_time",
        "generation",
        "lends",
        "scope",
        "started",
        "visits",
    )

    def __init__(self) -> None:
        self.scope: Any = None
        self.generation = 0
        self.started = 0
        self.lends = 0
        self.counts_time = 0
        self.visits = 0
        self.at: Any = None
        self._current: dict[int, list[Ref]] = {}
        self._tensor: dict[int, Ref] = {}
        self._cause: dict[int, Record] = {}
        self._fresh: set[int] = set()
        self._stamp = 0
        self._watchers: dict[int, weakref.ref[Any]] = {}
        self._spent = 0.0
        self._since: float | None = None

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

    def begin_work(self) -> bool:
        if not self.counts_time or self._since is not None:
            return False
        self._since = time.perf_counter()
        return True

    def end_work(self) -> None:
        self._spent = self.own_seconds()
        self._since = None

    def own_seconds(self) -> float:
        going_on = 0.0 if self._since is None else time.perf_counter() - self._since
        return self._spent + going_on

    def forget(self) -> None:
        self._watchers.clear()
        self._fresh.clear()
        self._current.clear()
        self._tensor.clear()
        self._cause.clear()
