"""The ops whose statistics the user wants of every step."""

from __future__ import annotations

from typing import Final

_MOST_OPS: Final = 64


class RecordedOps:
    """Names of ops, the newest last; beyond the most, the oldest is forgotten. Used from the
    training thread only."""

    def __init__(self) -> None:
        self._names: dict[str, None] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def __bool__(self) -> bool:
        return bool(self._names)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._names)

    def set(self, name: str, *, is_on: bool) -> None:
        self._names.pop(name, None)
        if is_on:
            self._names[name] = None
            if len(self._names) > _MOST_OPS:
                del self._names[next(iter(self._names))]
