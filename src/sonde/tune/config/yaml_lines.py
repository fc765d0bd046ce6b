"""Reads YAML into values with line numbers, so that messages can name the line.

Numbers and booleans are those of YAML 1.2: ``1e-4`` is a number (in PyYAML's YAML 1.1 a text),
``on`` and ``yes`` are texts. A key that occurs twice is an error; PyYAML uses the last one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sonde.core.files.input_file import read_input
from sonde.core.settings import Problems
from sonde.tune.errors import require

_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INTEGER = re.compile(r"[-+]?[0-9]+")
_WORDS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".inf", ".Inf", "+.inf"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf"), float("-inf")),
    **dict.fromkeys((".nan", ".NaN"), float("nan")),
}


@dataclass(frozen=True, slots=True)
class LocatedValue:
    """A value and its line (from 1; 0 when it comes from Python code).

    ``value`` is a scalar, a ``dict[str, LocatedValue]`` or a ``list[LocatedValue]``.
    """

    value: Any
    line: int

    def plain(self) -> Any:
        """The value without its lines."""
        if isinstance(self.value, dict):
            return {name: each.plain() for name, each in self.value.items()}
        if isinstance(self.value, list):
            return [each.plain() for each in self.value]
        return self.value


def located(value: Any) -> LocatedValue:
    """Plain Python values in the same form, with line 0."""
    if isinstance(value, Mapping):
        return LocatedValue({str(name): located(each) for name, each in value.items()}, 0)
    if isinstance(value, list | tuple | range):
        return LocatedValue([located(each) for each in value], 0)
    return LocatedValue(value, 0)


def read_yaml(path: Path, problems: Problems) -> LocatedValue | None:
    """The document of a YAML file; None, with the reason in ``problems``, if there is none."""
    yaml = require("yaml", "PyYAML", "reading a search's configuration")
    try:
        text = read_input(path).decode("utf-8-sig")
    except OSError as error:
        problems.add(f"cannot be read: {error.strerror or error}", slug="tune-file")
        return None
    except UnicodeDecodeError as error:
        problems.add(f"is not UTF-8 text (byte {error.start})", slug="tune-yaml")
        return None
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        found = None if node is None else _Conversion(yaml, problems).convert(node)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        reason = getattr(error, "problem", None) or str(error).splitlines()[0]
        line = mark.line + 1 if mark else 0
        problems.add(f"is not YAML: {reason}", slug="tune-yaml", line=line)
        return None
    except RecursionError:
        problems.add("is nested too deeply", slug="tune-yaml")
        return None
    except (ValueError, OverflowError, IndexError) as error:  # PyYAML does not catch these.
        problems.add(f"is not YAML: {error}", slug="tune-yaml")
        return None
    if found is None:
        problems.add("is empty; it needs at least 'command' and 'parameters'", slug="tune-yaml")
        return None
    return found


class _Conversion:
    """Converts PyYAML's nodes to located values; a node that is used twice is shared."""

    def __init__(self, yaml: Any, problems: Problems) -> None:
        self._yaml = yaml
        self._problems = problems
        self._known: dict[int, LocatedValue | None] = {}
        """The values by node; None while a node is being converted."""

    def convert(self, node: Any) -> LocatedValue:
        line = node.start_mark.line + 1
        if id(node) not in self._known:
            self._known[id(node)] = None
            self._known[id(node)] = LocatedValue(self._value(node), line)
        found = self._known[id(node)]
        if found is None:
            self._problems.add(
                "an alias refers to a value that contains it", slug="tune-yaml", line=line
            )
        return found or LocatedValue(None, line)

    def _value(self, node: Any) -> Any:
        if isinstance(node, self._yaml.MappingNode):
            return self._mapping(node)
        if isinstance(node, self._yaml.SequenceNode):
            return [self.convert(each) for each in node.value]
        return _scalar(node.value) if node.style is None else node.value

    def _mapping(self, node: Any) -> dict[str, LocatedValue]:
        found: dict[str, LocatedValue] = {}
        for key_node, value_node in node.value:
            key = str(getattr(key_node, "value", ""))
            if key in found:
                self._problems.add(
                    f"{key!r} occurs twice (first on line {found[key].line}); keep one of them",
                    slug="tune-yaml",
                    line=key_node.start_mark.line + 1,
                )
                continue
            value = self.convert(value_node)
            found[key] = LocatedValue(value.value, key_node.start_mark.line + 1)
        return found


def _scalar(text: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _NUMBER.fullmatch(text):
        return float(text)
    return text
