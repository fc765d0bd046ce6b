"""Reading one mapping of a configuration: each key once, each mistake noted with its line."""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from typing import Any

from sonde.core.settings import Problems, nearest
from sonde.tune.config.yaml_lines import Located

_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?:in)?)?(?:(\d+(?:\.\d+)?)s)?")


class ConfigSection:
    """A mapping being read; keys are read one by one, `finish` reports those that were not read.

    What is unusable gives the default, and a problem.
    """

    def __init__(self, node: Located, where: str, problems: Problems) -> None:
        self.problems = problems
        self.where = where
        self.line = node.line
        self._asked: dict[str, None] = {}
        self._content: dict[str, Located] = {}
        if isinstance(node.value, dict):
            self._content = node.value
        elif node.value is not None:
            self._refuse_shape(node)

    def _refuse_shape(self, node: Located) -> None:
        text = node.value if isinstance(node.value, str) else ""
        key, colon, value = text.partition(":")
        hint = f"; write '{key}: {value}' with a space" if colon and value else ""
        self._asked = dict.fromkeys(self._content)
        self.problems.add(
            f"{self.where or 'the file'} is {kind(node.value)}, not keys and values{hint}",
            slug="tune-value",
            line=node.line,
        )

    def __contains__(self, key: str) -> bool:
        return key in self._content

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._content)

    def node(self, key: str) -> Located | None:
        """What stands under a key; None when the key is missing or empty."""
        self._asked[key] = None
        found = self._content.get(key)
        return None if found is None or found.value is None else found

    def name(self, key: str) -> str:
        """The full name of a key, for messages."""
        return f"{self.where}.{key}" if self.where else key

    def refuse(self, key: str, message: str, *, slug: str = "tune-value") -> None:
        found = self._content.get(key)
        line = self.line if found is None else found.line
        self.problems.add(f"{self.name(key)} {message}", slug=slug, line=line)

    def text(self, key: str, default: str | None = None) -> str | None:
        found = self.node(key)
        if found is None:
            return default
        if not isinstance(found.value, str) or not found.value.strip():
            self.refuse(key, f"is {kind(found.value)}, not a text")
            return default
        return found.value

    def word(self, key: str, default: str, among: Collection[str]) -> str:
        """One of the accepted words, in lower case."""
        found = self.text(key, default)
        word = (found or default).strip().lower()
        if word in among:
            return word
        self.refuse(key, f"{found!r} is not one of {', '.join(among)}{nearest(word, among)}")
        return default

    def number(
        self, key: str, *, minimum: float | None = None, above: float | None = None
    ) -> float | None:
        """A finite number."""
        found = self.node(key)
        if found is None:
            return None
        if not is_number(found.value) or not math.isfinite(found.value):
            self.refuse(key, f"is {kind(found.value)}, not a number")
            return None
        if minimum is not None and found.value < minimum:
            self.refuse(key, f"is {found.value:g}; the least is {minimum:g}")
            return None
        if above is not None and found.value <= above:
            self.refuse(key, f"is {found.value:g}; it must be greater than {above:g}")
            return None
        return float(found.value)

    def whole(self, key: str, *, minimum: int = 0) -> int | None:
        found = self.node(key)
        if found is None:
            return None
        if isinstance(found.value, bool) or not isinstance(found.value, int):
            self.refuse(key, f"is {kind(found.value)}, not a whole number")
            return None
        if found.value < minimum:
            self.refuse(key, f"is {found.value}; the least is {minimum}")
            return None
        return found.value

    def flag(self, key: str, default: bool) -> bool:
        found = self.node(key)
        if found is None:
            return default
        if not isinstance(found.value, bool):
            self.refuse(key, f"is {kind(found.value)}, not true or false")
            return default
        return found.value

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
        """Note every key that was not asked for."""
        for key in self._content:
            if key in self._asked:
                continue
            advice = (hints or {}).get(key) or nearest(key, self._asked, "there are")
            self.refuse(key, f"is not a key{advice}", slug="tune-key")


def parse_duration(value: Any) -> float | None:
    """Positive seconds from a number or ``1d2h3m4s``; None if it is no time."""
    if is_number(value):
        return float(value) if 0 < value < math.inf else None
    match = _DURATION.fullmatch(value.replace(" ", "")) if isinstance(value, str) else None
    if match is None or not any(match.groups()):
        return parse_duration(float(value)) if _is_digits(value) else None
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return days * 86400 + hours * 3600 + minutes * 60 + seconds or None


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def kind(value: Any) -> str:
    """What a value is, in words for a message."""
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return f"the number {value:g}"
    if isinstance(value, str):
        return f"the text {value!r}"
    return "a list" if isinstance(value, list) else "keys and values"


def _is_digits(value: Any) -> bool:
    return isinstance(value, str) and value.strip().replace(".", "", 1).isdigit()
