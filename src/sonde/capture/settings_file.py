"""Strict reading of a JSON settings file: all problems at once, each with the key and advice."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from sonde.core.errors import ConfigError, SondeError
from sonde.core.settings import Problems, nearest, one_of


def read_settings(path: Path) -> tuple[dict[str, Any], str]:
    """The JSON object in ``path`` and its text. A UTF-8 byte order mark is accepted and dropped.

    Stricter than ``json``: duplicate keys and NaN or Infinity are refused.
    """
    source = str(path)
    try:
        raw = path.read_bytes()
    except OSError as error:
        _refuse(f"{source}: cannot be read: {error.strerror or error}", slug="config-file")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        _refuse(
            f"{source}: is not UTF-8 text (byte {error.start}); save it as UTF-8",
            slug="config-json",
        )
    content = _parse(text, source)
    if not isinstance(content, dict):
        _refuse(f"{source}: is {kind(content)}, not a JSON object {{...}}", slug="config-json")
    return content, text


def _parse(text: str, source: str) -> object:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        content: dict[str, Any] = {}
        for key, value in pairs:
            if key in content:
                _refuse(
                    f"{source}: the key {key!r} occurs twice in one object; keep one of them",
                    slug="config-json",
                )
            content[key] = value
        return content

    def no_constant(name: str) -> NoReturn:
        _refuse(f"{source}: {name} is not a JSON value", slug="config-json")

    try:
        return json.loads(text, object_pairs_hook=unique, parse_constant=no_constant)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        _refuse(
            f"{source}: {where}: not valid JSON: {_explain(error)}",
            slug="config-json",
        )
    except RecursionError:
        _refuse(f"{source}: is nested too deeply to be a configuration", slug="config-json")
    except ValueError as error:  # a number with thousands of digits
        _refuse(f"{source}: not valid JSON: {error}", slug="config-json")


def _explain(error: json.JSONDecodeError) -> str:
    """The probable mistake, from the text where the parser stopped."""
    rest = error.doc[error.pos :].lstrip()
    before = error.doc[: error.pos].rstrip()
    if not error.doc.strip():
        return "the file is empty"
    if rest.startswith(("//", "/*", "#")):
        return "JSON has no comments; remove this one"
    if rest.startswith("'"):
        return "write text in double quotes, not single ones"
    if rest[:1] in ("}", "]") and before.endswith(","):
        return f"remove the comma before {rest[0]}"
    if rest.startswith(",") and re.match(r",\s*[}\]]", rest):
        return "remove the comma after the last entry"
    word = re.match(r"(True|False|None)\b", rest)
    if word:
        return f"write {_JSON_WORD[word[1]]} instead of {word[1]}"
    return error.msg[0].lower() + error.msg[1:]


_JSON_WORD = {"True": "true", "False": "false", "None": "null"}


class JsonSection:
    """One object of a settings file, read key by key.

    Every reader returns a usable value: that of the file, or else ``default`` (and the problem is
    noted).
    """

    def __init__(self, values: Mapping[str, Any], problems: Problems, *, prefix: str = "") -> None:
        self._values = values
        self._problems = problems
        self._prefix = prefix

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def refuse(self, key: str, message: str, *, slug: str) -> None:
        self._problems.add(f"{self._prefix}{key} {message}", slug=slug, key=key)

    def is_sound(self, key: str) -> bool:
        """Whether the key has had no problem so far."""
        return self._problems.none_with(key)

    def demand(self, key: str, accepted: str) -> None:
        """Note a problem if the key is not there."""
        if key not in self._values:
            self.refuse(key, f"is missing; write {accepted}", slug="config-missing-key")

    def number(
        self,
        key: str,
        default: int,
        *,
        accepted: str,
        among: Collection[int] | None = None,
        minimum: int = 0,
    ) -> int:
        value = self._values.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool):
            self._wrong_type(key, value, accepted)
        elif value < minimum or (among is not None and value not in among):
            self._wrong_value(key, value, accepted)
        else:
            return value
        return default

    def flag(self, key: str, default: bool) -> bool:
        value = self._values.get(key, default)
        if isinstance(value, bool):
            return value
        self._wrong_type(key, value, "true or false")
        return default

    def word(self, key: str, default: str, *, among: Sequence[str]) -> str:
        value = self._values.get(key, default)
        accepted = one_of(json.dumps(word) for word in among)
        if not isinstance(value, str):
            self._wrong_type(key, value, accepted)
        elif value not in among:
            self._wrong_value(key, value, accepted, nearest(value, among))
        else:
            return value
        return default

    def text(self, key: str, default: str, *, accepted: str, number_too: bool = False) -> str:
        """A text; with ``number_too`` also a whole number, as text."""
        value = self._values.get(key, default)
        if isinstance(value, str):
            return value
        if number_too and isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        self._wrong_type(key, value, accepted)
        return default

    def texts(self, key: str, default: Sequence[str], *, accepted: str) -> tuple[str, ...]:
        value = self._values.get(key, default)
        if not isinstance(value, (list, tuple)):
            self._wrong_type(key, value, accepted)
        elif all(isinstance(entry, str) for entry in value):
            return tuple(value)
        else:
            for index, entry in enumerate(value):
                if not isinstance(entry, str):
                    self._wrong_type(key, entry, accepted, index)
        return tuple(default)

    def numbers(self, key: str, default: Sequence[int], *, accepted: str) -> frozenset[int]:
        """A list of numbers, none negative."""
        value = self._values.get(key, default)
        if not isinstance(value, (list, tuple)):
            self._wrong_type(key, value, accepted)
            return frozenset(default)
        sound = True
        for index, entry in enumerate(value):
            if not isinstance(entry, int) or isinstance(entry, bool):
                self._wrong_type(key, entry, accepted, index)
                sound = False
            elif entry < 0:
                self._wrong_value(key, entry, accepted, index=index)
                sound = False
        return frozenset(value) if sound else frozenset(default)

    def _wrong_type(self, key: str, value: object, accepted: str, index: int | None = None) -> None:
        shown = "null" if value is None else f"{show(value)}, {kind(value)}"
        self._problems.add(
            f"{self._label(key, index)} is {shown}; accepted: {accepted}",
            slug="config-type",
            key=key,
        )

    def _wrong_value(
        self, key: str, value: object, accepted: str, hint: str = "", *, index: int | None = None
    ) -> None:
        self._problems.add(
            f"{self._label(key, index)} is {show(value)}; accepted: {accepted}{hint}",
            slug="config-value",
            key=key,
        )

    def _label(self, key: str, index: int | None) -> str:
        return f"{self._prefix}{key}" if index is None else f"{self._prefix}{key}[{index}]"


def show(value: object) -> str:
    """A value as the file spells it, cut when long."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "..."


def kind(value: object) -> str:
    """What JSON calls a value of this type, with its article."""
    if value is None:
        return "null"
    for types, name in _KINDS:
        if isinstance(value, types):
            return name
    raise TypeError(f"not a JSON value: {value!r}")


_KINDS: tuple[tuple[type, str], ...] = (
    (bool, "a boolean"),
    (int, "a number"),
    (float, "a number with a fraction"),
    (str, "a text"),
    (list, "a list"),
    (dict, "an object"),
)


def _refuse(message: str, *, slug: str) -> NoReturn:
    raise ConfigError([SondeError(message, slug=slug)]) from None
