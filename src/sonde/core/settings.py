"""What every strict reader of settings shares: collected problems, and the nearest known word."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from sonde.core.errors import ConfigError, SondeError


class Problems:
    """Everything that is wrong with one source of settings (a file, the command line)."""

    def __init__(self, source: str) -> None:
        self.source = source
        self._found: list[tuple[int, SondeError]] = []
        self._keys: set[str] = set()

    def add(self, message: str, *, slug: str, key: str | None = None, line: int = 0) -> None:
        """Note a problem, of the source as a whole or of one line of it.

        ``key`` is the setting whose value is unusable from now on.
        """
        place = f"{self.source}:{line}" if line else self.source
        self._found.append((line, SondeError(f"{place}: {message}", slug=slug)))
        if key is not None:
            self._keys.add(key)

    def none_with(self, *keys: str) -> bool:
        """Whether all of these settings were usable, so that combining them makes sense."""
        return self._keys.isdisjoint(keys)

    def __bool__(self) -> bool:
        return bool(self._found)

    def raise_if_any(self) -> None:
        """Raise a `ConfigError` with all problems, in the order of their lines."""
        if self._found:
            raise ConfigError([error for _, error in sorted(self._found, key=lambda each: each[0])])


def nearest(word: object, known: Iterable[str], listed: str = "") -> str:
    """``"; did you mean 'x'?"`` if a known word is similar to this one, whatever its case.

    Else ``"; {listed} a, b, c"`` with all known words, or nothing without ``listed``.
    """
    by_lower = {name.lower(): name for name in known}
    close = difflib.get_close_matches(str(word).lower(), by_lower, n=1)
    if close:
        return f"; did you mean {by_lower[close[0]]!r}?"
    return f"; {listed} {', '.join(by_lower.values())}" if listed else ""


def one_of(words: Iterable[str]) -> str:
    """``a, b or c``."""
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last
