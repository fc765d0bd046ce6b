"""Strict parsing of a JSON settings file; ``core.settings`` reads the values in it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NoReturn

from sonde.core.errors import ConfigError, SondeError
from sonde.core.files.input_file import read_input
from sonde.core.settings import kind_of


def read_settings(path: Path) -> tuple[dict[str, Any], str]:
    """The JSON object in ``path`` and its text. A UTF-8 byte order mark is accepted and dropped.

    Stricter than ``json``: duplicate keys and NaN or Infinity are refused.
    """
    source = str(path)
    try:
        raw = read_input(path)
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
        _refuse(f"{source}: is {kind_of(content)}, not a JSON object {{...}}", slug="config-json")
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
    if error.msg.startswith("Invalid control character"):
        return "a text must end in the line in which it begins; close its quotes"
    if error.msg.startswith("Unterminated string"):
        return "this text has no closing quote"
    return error.msg[0].lower() + error.msg[1:]


_JSON_WORD = {"True": "true", "False": "false", "None": "null"}


def _refuse(message: str, *, slug: str) -> NoReturn:
    raise ConfigError([SondeError(message, slug=slug)]) from None
