"""Strict reading of settings: all problems at once, each with the key and what is accepted.

A ``Section`` reads one object of a settings file key by key. ``Problems`` collects what is wrong
with one source (a file, the command line, the arguments of a call) and raises it all at once.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from sonde.core.errors import ConfigError, SondeError

T = TypeVar("T")

_KINDS: tuple[tuple[type, str], ...] = (
    (bool, "a boolean"),
    (int, "a number"),
    (float, "a number with a fraction"),
    (str, "a text"),
    (list, "a list"),
    (dict, "an object"),
)


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


def nearest(word: object, known: Iterable[str], listed: str = "", *, most: int = 1) -> str:
    """``"; did you mean 'x'?"`` with the known words, at most ``most``, that are similar to this
    one, whatever their case.

    Else ``"; {listed} a, b, c"`` with all known words, or nothing without ``listed``.
    """
    by_lower = {name.lower(): name for name in known}
    close = difflib.get_close_matches(str(word).lower(), by_lower, n=most)
    if close:
        return f"; did you mean {one_of(repr(by_lower[name]) for name in close)}?"
    return f"; {listed} {', '.join(by_lower.values())}" if listed else ""


def one_of(words: Iterable[str]) -> str:
    """``a, b or c``."""
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last


class Rule(NamedTuple):
    """Which values a setting takes: in words, by type and by value; ``limit`` says the latter."""

    accepted: str
    has_type: Callable[[Any], bool]
    is_accepted: Callable[[Any], bool] = lambda value: True
    limit: str = ""


class Section:
    """One object of a settings file, read key by key.

    Every reader returns a usable value: that of the file, or else ``default`` (and the problem is
    noted). ``accepted`` says in messages which values are accepted. ``prefix`` is added to keys in
    messages. ``lines`` has the line of each key, ``line`` that of the object (for keys it lacks).
    """

    type_slug = "config-type"
    value_slug = "config-value"

    def __init__(
        self,
        values: Mapping[str, Any],
        problems: Problems,
        *,
        prefix: str = "",
        lines: Mapping[str, int] | None = None,
        line: int = 0,
    ) -> None:
        self.problems = problems
        self.line = line
        self._values = values
        self._prefix = prefix
        self._lines = lines or {}

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def name(self, key: str) -> str:
        """The full name of a key, for messages."""
        return f"{self._prefix}{key}"

    def refuse(self, key: str, message: str, *, slug: str | None = None, entry: str = "") -> None:
        """Note a problem with a key, or with an entry of its list, such as ``[2]``."""
        text = f"{self.name(key)}{entry} {message}"
        line = self._lines.get(key, self.line)
        self.problems.add(text, slug=slug or self.value_slug, key=key, line=line)

    def is_sound(self, key: str) -> bool:
        """Whether the key has had no problem so far."""
        return self.problems.none_with(key)

    def demand(self, key: str, accepted: str) -> None:
        """Note a problem if the key is missing."""
        if key not in self._values:
            self.refuse(key, f"is missing; write {accepted}", slug="config-missing-key")

    def whole(
        self, key: str, default: T, *, minimum: int = 0, accepted: str = "a whole number"
    ) -> int | T:
        """A whole number of at least ``minimum``."""
        rule = Rule(accepted, is_whole, lambda value: value >= minimum, f"the least is {minimum}")
        return self.read(key, default, rule)

    def choice(self, key: str, meanings: Mapping[int, T], *, accepted: str) -> T:
        """The meaning of a number; by default the first of ``meanings``."""
        default = next(iter(meanings))
        return meanings[self.read(key, default, Rule(accepted, is_whole, meanings.__contains__))]

    def flag(self, key: str, default: bool) -> bool:
        return self.read(key, default, Rule("true or false", lambda value: isinstance(value, bool)))

    def word(self, key: str, among: Sequence[str], default: str | None = None) -> str:
        """One of these words; by default the first."""
        accepted = one_of(json.dumps(word) for word in among)
        value = self._values.get(key)
        if is_text(value) and value not in among:
            accepted += nearest(value, among)
        return self.read(key, default or among[0], Rule(accepted, is_text, among.__contains__))

    def text(self, key: str, default: str, *, accepted: str, number_too: bool = False) -> str:
        """A text; with ``number_too`` also a whole number, as text."""
        has_type = (lambda value: is_text(value) or is_whole(value)) if number_too else is_text
        return str(self.read(key, default, Rule(accepted, has_type)))

    def entries(self, key: str, default: Sequence[T], rule: Rule) -> tuple[T, ...]:
        """A list of values that all obey one rule."""
        value = self.read(
            key, default, Rule(rule.accepted, lambda each: isinstance(each, list | tuple))
        )
        sound = [self._obeys(rule, key, each, f"[{index}]") for index, each in enumerate(value)]
        return tuple(value if all(sound) else default)

    def read(self, key: str, default: T, rule: Rule) -> T:
        """The value of a key if it obeys the rule, else ``default``."""
        if key not in self._values:
            return default
        value: T = self._values[key]
        return value if self._obeys(rule, key, value) else default

    def _obeys(self, rule: Rule, key: str, value: object, entry: str = "") -> bool:
        has_type = rule.has_type(value)
        if has_type and rule.is_accepted(value):
            return True
        slug = self.value_slug if has_type else self.type_slug
        self.refuse(key, self.describe(value, rule, has_type), slug=slug, entry=entry)
        return False

    def describe(self, value: object, rule: Rule, has_type: bool) -> str:
        """What a message says of a value that breaks the rule."""
        kind = "" if has_type or value is None else f", {kind_of(value)}"
        return f"is {_shown(value)}{kind}; accepted: {rule.accepted}"


def is_text(value: object) -> bool:
    return isinstance(value, str)


def is_whole(value: object) -> bool:
    """Whether it is a whole number; a bool is not."""
    return isinstance(value, int) and not isinstance(value, bool)


def kind_of(value: object) -> str:
    """What JSON calls a value of this type, with its article."""
    return next((name for type_, name in _KINDS if isinstance(value, type_)), "null")


def _shown(value: object) -> str:
    """A value as the file spells it, cut when long."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "..."
