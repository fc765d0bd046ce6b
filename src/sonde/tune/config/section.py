"""Reads one mapping of a configuration: each key once, each mistake noted with its line."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, TypeVar

from sonde.core.settings import Problems, Rule, Section, is_text, nearest
from sonde.tune.config.yaml_lines import LocatedValue

T = TypeVar("T")

_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?:in)?)?(?:(\d+(?:\.\d+)?)s)?")


class TuneSection(Section):
    """A mapping of a search's configuration; `finish` reports the keys that were not read.

    A key without a value counts as missing. ``where`` is the full name of the mapping.
    """

    type_slug = value_slug = "tune-value"

    def __init__(self, node: LocatedValue, where: str, problems: Problems) -> None:
        is_mapping = isinstance(node.value, dict)
        content: dict[str, LocatedValue] = node.value if is_mapping else {}
        super().__init__(
            {key: found.value for key, found in content.items() if found.value is not None},
            problems,
            prefix=f"{where}." if where else "",
            lines={key: found.line for key, found in content.items()},
            line=node.line,
        )
        self.where = where
        self.names = tuple(content)
        self._content = content
        self._read: dict[str, None] = {}
        if node.value is not None and not is_mapping:
            text = node.value if isinstance(node.value, str) else ""
            key, colon, value = text.partition(":")
            hint = f"; write '{key}: {value}' with a space" if colon and value else ""
            message = f"{where or 'the file'} is {kind(node.value)}, not keys and values{hint}"
            problems.add(message, slug="tune-value", line=node.line)

    def __contains__(self, key: str) -> bool:
        return key in self._content

    def node(self, key: str) -> LocatedValue | None:
        """The value of a key with its line; None if the key is missing or empty."""
        self._read[key] = None
        return self._content[key] if key in self._values else None

    def read(self, key: str, default: T, rule: Rule) -> T:
        self._read[key] = None
        return super().read(key, default, rule)

    def describe(self, value: object, rule: Rule, has_type: bool) -> str:
        return f"is {value}; {rule.limit}" if has_type else f"is {kind(value)}, not {rule.accepted}"

    def optional_text(self, key: str) -> str | None:
        """A text that is not blank."""
        return self.read(key, None, Rule("a text", lambda text: is_text(text) and text.strip()))

    def word(self, key: str, among: Sequence[str], default: str | None = None) -> str:
        """One of the accepted words, in lower case."""
        default = default or among[0]
        found = self.optional_text(key) or default
        word = found.strip().lower()
        if word in among:
            return word
        self.refuse(key, f"{found!r} is not one of {', '.join(among)}{nearest(word, among)}")
        return default

    def number(self, key: str, *, above: float = -math.inf) -> float | None:
        """A finite number."""
        value: float | None = self.read(key, None, Rule("a number", is_finite_number))
        if value is None or value > above:
            return None if value is None else float(value)
        self.refuse(key, f"is {value:g}; it must be greater than {above:g}")
        return None

    def duration(self, key: str) -> float | None:
        """Seconds, from ``90``, ``10m``, ``1h30m``."""
        found = self.node(key)
        if found is None:
            return None
        seconds = parse_duration(found.value)
        if seconds is None:
            self.refuse(key, f"{found.plain()!r} is not a time such as 90, '10m' or '1h30m'")
        return seconds

    def section(self, key: str) -> TuneSection:
        """The mapping under a key; an empty one if the key is missing."""
        node = self.node(key) or LocatedValue(None, self.line)
        return TuneSection(node, self.name(key), self.problems)

    def finish(self, *, hints: dict[str, str] | None = None) -> None:
        """Note every key that was not read; ``hints`` replaces the nearest known key."""
        for key in self.names:
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
