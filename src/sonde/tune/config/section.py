"""Reads one mapping of a configuration: each key once, each mistake noted with its line."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection
from typing import Any

from sonde.core.settings import Problems, is_whole, nearest
from sonde.tune.config.yaml_lines import Located

_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?:in)?)?(?:(\d+(?:\.\d+)?)s)?")


class ConfigSection:
    """A mapping whose keys are read one by one; `finish` reports the keys that were not read.

    A value that cannot be used is noted as a problem and replaced by the default.
    """

    def __init__(self, node: Located, where: str, problems: Problems) -> None:
        self.problems = problems
        self.where = where
        self.line = node.line
        self._read: dict[str, None] = {}
        self._content: dict[str, Located] = {}
        if isinstance(node.value, dict):
            self._content = node.value
        elif node.value is not None:
            text = node.value if isinstance(node.value, str) else ""
            key, colon, value = text.partition(":")
            hint = f"; write '{key}: {value}' with a space" if colon and value else ""
            problems.add(
                f"{where or 'the file'} is {kind(node.value)}, not keys and values{hint}",
                slug="tune-value",
                line=node.line,
            )

    def __contains__(self, key: str) -> bool:
        return key in self._content

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._content)

    def node(self, key: str) -> Located | None:
        """The value of a key with its line; None if the key is missing or empty."""
        self._read[key] = None
        found = self._content.get(key)
        return None if found is None or found.value is None else found

    def name(self, key: str) -> str:
        """The full name of a key, for messages."""
        return f"{self.where}.{key}" if self.where else key

    def refuse(self, key: str, message: str, *, slug: str = "tune-value") -> None:
        """Note a problem with a key."""
        found = self._content.get(key)
        line = self.line if found is None else found.line
        self.problems.add(f"{self.name(key)} {message}", slug=slug, line=line)

    def _value(self, key: str, is_valid: Callable[[Any], bool], wanted: str) -> Any:
        """The value of a key if it is valid, else None."""
        found = self.node(key)
        if found is None or is_valid(found.value):
            return None if found is None else found.value
        self.refuse(key, f"is {kind(found.value)}, not {wanted}")
        return None

    def text(self, key: str) -> str | None:
        text: str | None = self._value(key, _is_text, "a text")
        return text

    def word(self, key: str, default: str, among: Collection[str]) -> str:
        """One of the accepted words, in lower case."""
        found = self.text(key) or default
        word = found.strip().lower()
        if word in among:
            return word
        self.refuse(key, f"{found!r} is not one of {', '.join(among)}{nearest(word, among)}")
        return default

    def number(self, key: str, *, above: float | None = None) -> float | None:
        """A finite number."""
        value = self._value(key, is_finite_number, "a number")
        if value is not None and above is not None and value <= above:
            self.refuse(key, f"is {value:g}; it must be greater than {above:g}")
            return None
        return None if value is None else float(value)

    def whole(self, key: str, *, minimum: int = 0) -> int | None:
        value: int | None = self._value(key, is_whole, "a whole number")
        if value is not None and value < minimum:
            self.refuse(key, f"is {value}; the least is {minimum}")
            return None
        return value

    def flag(self, key: str, default: bool) -> bool:
        value = self._value(key, lambda one: isinstance(one, bool), "true or false")
        return default if value is None else bool(value)

    def duration(self, key: str) -> float | None:
        """Seconds, from ``90``, ``10m``, ``1h30m``."""
        found = self.node(key)
        if found is None:
            return None
        seconds = parse_duration(found.value)
        if seconds is None:
            self.refuse(key, f"{found.plain()!r} is not a time such as 90, '10m' or '1h30m'")
        return seconds

    def section(self, key: str) -> ConfigSection:
        """The mapping under a key; an empty one if the key is missing."""
        found = self.node(key)
        return ConfigSection(found or Located(None, self.line), self.name(key), self.problems)

    def finish(self, *, hints: dict[str, str] | None = None) -> None:
        """Note every key that was not read; ``hints`` replaces the nearest known key."""
        for key in self._content:
            if key not in self._read:
                advice = (hints or {}).get(key) or nearest(key, self._read, "there are")
                self.refuse(key, f"is not a key{advice}", slug="tune-key")


def parse_duration(value: Any) -> float | None:
    """Positive seconds from a number or a text such as ``1d2h3m4s``; None for anything else."""
    if is_number(value):
        return float(value) if 0 < value < math.inf else None
    if not isinstance(value, str):
        return None
    match = _DURATION.fullmatch(value.replace(" ", ""))
    if match is None or not any(match.groups()):
        is_number_text = value.strip().replace(".", "", 1).isdigit()
        return parse_duration(float(value)) if is_number_text else None
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return days * 86400 + hours * 3600 + minutes * 60 + seconds or None


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_finite_number(value: Any) -> bool:
    return is_number(value) and math.isfinite(value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def kind(value: Any) -> str:
    """The kind of a value, in words for a message."""
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return f"the number {value:g}"
    if isinstance(value, str):
        return f"the text {value!r}"
    return "a list" if isinstance(value, list) else "keys and values"
