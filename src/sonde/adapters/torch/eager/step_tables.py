"""The tables of the running step: what each storage holds, and which op ran last.

The native ``_match.Matcher`` (``native/match``) has the same methods as ``Tables``, is used in its
place where it was built, and also recognises known ops by itself.
"""

from __future__ import annotations

import time
import weakref
from typing import Any

import torch

from sonde.adapters.torch import private
from sonde.adapters.torch.eager.op_tree import ALIAS, OpRecord, TensorRef


class Tables:
    """The tables of a step. Keys are storages, see ``step_inputs.storage_key``.

    - ``entry``: the references of a storage: first what it holds now, then the tensors over it
      that are up to date;
    - ``tensor``: the reference of a tensor, by ``private.tensor_id``;
    - ``cause``: the op that ran when autograd's sequence number had this value;
    - ``at``: the record of the op that ran last (its native node in the native matcher);
    - fresh storages were made by an observed op of this step;
    - watched storages (and tensors without one) are dropped when they die, because their key may
      be used again. The tables keep no memory alive;
    - ``is_reshaped``: a step input of this step has another shape than when it was learned;
    - ``geometry``: what distinguishes tensors over one storage, in a form that is fast to compare;
      None if there is no such form;
    - ``now``: a timestamp in microseconds since the epoch, larger than the last one.
    """

    def __init__(self) -> None:
        self.scope: Any = None
        self.generation = 0
        self.started = 0
        self.lends = 0
        self.is_reshaped = 0
        self.at: Any = None
        self._current: dict[int, list[TensorRef]] = {}
        self._tensor: dict[int, TensorRef] = {}
        self._cause: dict[int, OpRecord] = {}
        self._fresh: set[int] = set()
        self._stamp = 0
        self._watchers: dict[int, weakref.ref[Any]] = {}
        self._lasting: dict[int, weakref.ref[Any]] = {}
        self._keys: dict[int, int] = {}
        # Weak references whose objects died. Their callback is a function of C: Python would run a
        # signal handler of the program inside one of Python, and ignore what the handler raises.
        self._dead: list[weakref.ref[Any]] = []

    def entry(self, key: int, /) -> list[TensorRef] | None:
        if self._dead:
            self._drop_dead()
        return self._current.get(key)

    def tensor(self, impl: int, /) -> TensorRef | None:
        return self._tensor.get(impl)

    def cause(self, number: int, /) -> OpRecord | None:
        return self._cause.get(number)

    def put(self, kind: int, ref: TensorRef, key: int, impl: int, /) -> None:
        if self._dead:
            self._drop_dead()
        entry = self._current.get(key)
        if kind == ALIAS and entry is not None:
            entry.append(ref)
        else:
            self._current[key] = [ref]
        self._tensor[impl] = ref

    def note(self, record: OpRecord, /) -> None:
        self._cause.setdefault(private.sequence_number(), record)

    def geometry(self, tensor: torch.Tensor, /) -> object:
        return None

    def is_fresh(self, key: int, /) -> bool:
        if self._dead:
            self._drop_dead()
        return key in self._fresh

    def add_fresh(self, key: int, /) -> None:
        if self._dead:
            self._drop_dead()
        self._fresh.add(key)

    def watch(self, key: int, thing: object, /) -> None:
        if self._dead:
            self._drop_dead()
        if key not in self._watchers:
            self._watchers[key] = self._reference(key, thing)

    def watch_always(self, key: int, thing: object, /) -> None:
        """The same as ``watch``, also when the step has ended."""
        self._lasting[key] = self._reference(key, thing)

    def _reference(self, key: int, thing: object) -> weakref.ref[Any]:
        made = weakref.ref(thing, self._dead.append)
        self._keys[id(made)] = key
        return made

    def _drop_dead(self) -> None:
        while self._dead:
            dead = self._dead.pop()
            key = self._keys.pop(id(dead), None)
            if key is not None and (
                self._watchers.get(key) is dead or self._lasting.get(key) is dead
            ):
                self._lasting.pop(key, None)
                self.drop(key)

    def drop(self, key: int, /) -> None:
        self._current.pop(key, None)
        self._fresh.discard(key)
        self._watchers.pop(key, None)

    def now(self) -> int:
        self._stamp = max(self._stamp + 1, time.time_ns() // 1000)
        return self._stamp

    def forget(self) -> None:
        self._drop_dead()
        self._watchers.clear()
        self._keys = {id(each): key for key, each in self._lasting.items()}
        self._fresh.clear()
        self._current.clear()
        self._tensor.clear()
        self._cause.clear()
        self.is_reshaped = 0
