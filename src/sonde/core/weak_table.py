"""A table of objects that does not keep them alive, and does not run Python code when they die."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class _Reference(weakref.ref[Any]):
    __slots__ = ("number",)
    number: int


class WeakTable(Generic[Key, Value]):
    """Values by object, not by equality, as long as the object exists. Not thread-safe.

    The tables of ``weakref`` call a Python function when an object dies. Python may run a signal
    handler of the program inside it, and ignores what the handler raises there, so that a time-out
    or a request to stop would be lost. Here the function is one of C, which no handler interrupts.
    """

    __slots__ = ("_dead", "_entries")

    def __init__(self) -> None:
        self._entries: dict[int, tuple[_Reference, Value]] = {}
        self._dead: list[weakref.ref[Any]] = []

    def __setitem__(self, key: Key, value: Value) -> None:
        self._drop_dead()
        known = self._entries.get(id(key))
        if known is not None and known[0]() is key:
            reference = known[0]
        else:
            reference = _Reference(key, self._dead.append)
            reference.number = id(key)
        self._entries[id(key)] = (reference, value)

    def get(self, key: Key) -> Value | None:
        known = self._entries.get(id(key))
        return known[1] if known is not None and known[0]() is key else None

    def __contains__(self, key: Key) -> bool:
        known = self._entries.get(id(key))
        return known is not None and known[0]() is key

    def __iter__(self) -> Iterator[Key]:
        """The objects that exist, in the order in which they were added; they may be added to, or
        die, meanwhile."""
        self._drop_dead()
        for reference, _ in list(self._entries.values()):
            key = reference()
            if key is not None:
                yield key

    def discard(self, key: Key) -> None:
        if key in self:
            del self._entries[id(key)]

    def values(self) -> list[Value]:
        self._drop_dead()
        return [value for _, value in self._entries.values()]

    def __len__(self) -> int:
        self._drop_dead()
        return len(self._entries)

    def _drop_dead(self) -> None:
        while self._dead:
            dead: Any = self._dead.pop()
            known = self._entries.get(dead.number)
            if known is not None and known[0] is dead:
                del self._entries[dead.number]
