"""YAML as values that know the line they stand on, so that every mistake can be pointed at.

Numbers and booleans are those of YAML 1.2: ``1e-4`` is a number (the library's YAML 1.1 makes it a
text), ``on`` and ``yes`` are texts. A key that stands twice is a mistake: elsewhere the last one
silently wins.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sonde.core.settings import Problems
from sonde.tune.errors import TuneError

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
class Located:
    """A value and its line (from 1; 0 when it comes from Python code).

    ``value`` is a scalar, a ``dict[str, Located]`` or a ``list[Located]``.
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


def located(value: Any) -> Located:
    """Plain Python values in the same form, without lines."""
    if isinstance(value, Mapping):
        return Located({str(name): located(each) for name, each in value.items()}, 0)
    if isinstance(value, list | tuple | range):
        return Located([located(each) for each in value], 0)
    return Located(value, 0)


def read_yaml(path: Path, problems: Problems) -> Located | None:
    """The one document of a YAML file; None, with the reason among the problems, if it has none."""
    yaml = _yaml()
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        problems.add(f"cannot be read: {error.strerror or error}", slug="tune-file")
        return None
    except UnicodeDecodeError as error:
        problems.add(f"is not UTF-8 text (byte {error.start})", slug="tune-yaml")
        return None
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        reason = getattr(error, "problem", None) or str(error).splitlines()[0]
        line = mark.line + 1 if mark else 0
        problems.add(f"is not YAML: {reason}", slug="tune-yaml", line=line)
        return None
    if node is None:
        problems.add("is empty; it needs at least 'command' and 'parameters'", slug="tune-yaml")
        return None
    return _Conversion(yaml, problems).convert(node)


class _Conversion:
    """Nodes of the YAML library to located values; a node that is referred to twice is shared."""

    def __init__(self, yaml: Any, problems: Problems) -> None:
        self._yaml = yaml
        self._problems = problems
        self._known: dict[int, Located] = {}
        self._open: set[int] = set()

    def convert(self, node: Any) -> Located:
        line = node.start_mark.line + 1
        if id(node) in self._known:
            return self._known[id(node)]
        if id(node) in self._open:
            self._problems.add("an alias refers to what it stands in", slug="tune-yaml", line=line)
            return Located(None, line)
        self._open.add(id(node))
        found = Located(self._value(node), line)
        self._open.discard(id(node))
        self._known[id(node)] = found
        return found

    def _value(self, node: Any) -> Any:
        if isinstance(node, self._yaml.MappingNode):
            return self._mapping(node)
        if isinstance(node, self._yaml.SequenceNode):
            return [self.convert(each) for each in node.value]
        return _scalar(node.value) if node.style is None else node.value

    def _mapping(self, node: Any) -> dict[str, Located]:
        found: dict[str, Located] = {}
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
            found[key] = Located(value.value, key_node.start_mark.line + 1)
        return found


def _scalar(text: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _NUMBER.fullmatch(text):
        return float(text)
    return text


def _yaml() -> Any:
    try:
        import yaml  # type: ignore[import-untyped]
    except ImportError:
        raise TuneError(
            "reading a search's configuration needs PyYAML: pip install 'sonde[tune]'",
            slug="extra-missing",
        ) from None
    return yaml
