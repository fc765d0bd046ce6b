"""Patterns that select ops by name: one language for all commands, files and calls.

``docs/patterns.md`` describes it for users. A pattern is

- ``name-regex(...)``, which must match the whole full name, in linear time;
- a text with ``/``: the full name of an op, the end of one, or a scope and all ops in it;
- ``addmm-op0``: the last part of a full name;
- a text with dots: a module (``layers.0.attn``), a parameter (``fc1.weight``) or the qualified name
  of a function or class (``torch.relu``, ``F.linear``, ``aten.addmm``, ``nn.Linear``);
- a word: a module by its name (``fc1``) or class (``Linear``), a parameter by the end of its name
  (``weight``), an operator by its whole name in MindSpore (``Conv2D``), or a part of an op type,
  whatever its case (``conv``).

``!`` before it excludes what it matches. Whether a pattern matches an op depends on nothing but
this op, so that it is known when the op first runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple

from sonde.core.errors import SondeError
from sonde.core.graph import GRADIENTS
from sonde.core.operators import kinds
from sonde.core.text.linear_regex import LinearRegex

_REGEX: Final = re.compile(r"^name-regex\((.*)\)$", re.DOTALL)
_LAST_PART: Final = re.compile(r"-op[0-9]+$")
_ANCHORS: Final = ("Default", GRADIENTS.rstrip("/"), "recompute_Default")
_ATEN: Final = re.compile(r"(?:torch\.ops\.)?aten(?:\.|::)(\w+)(?:\.\w+)?")
_CLASS: Final = re.compile(r"(?:torch\.)?nn\.([A-Z]\w*)")
_FUNCTION: Final = re.compile(
    r"(?:torch\.Tensor\.|(?:torch\.)?nn\.functional\.|torch\.|F\.|(?:mindspore\.)?(?:ops|mint)\.)"
    r"(\w+(?:\.\w+)?)"
)
_MOST_REMEMBERED: Final = 50_000
_NETWORK_NAMES: Final = ("net", "model", "module")
"""Variables whose network is called ``network`` in scopes, see ``docs/names.md``."""


Test = Callable[[str, str, str, bool], bool]
"""Whether a name, a type, a scope, of a leaf or not, are selected."""


class NamedOp(NamedTuple):
    """An op or a leaf of a graph, as far as patterns name it."""

    name: str
    type: str
    scope: str | None
    is_leaf: bool


class ScopePart(NamedTuple):
    """One part of a scope, ``fc1-Linear``: the name and the class of a module."""

    label: str
    name: str
    cls: str


@lru_cache(maxsize=16384)
def parts_of(scope: str) -> tuple[ScopePart, ...]:
    """The modules of a scope, outermost first."""
    found = []
    for label in scope.split("/"):
        name, dash, cls = label.rpartition("-")
        if dash:
            found.append(ScopePart(label, name, re.sub(r"_[0-9]+$", "", cls)))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class OpPattern:
    """One pattern. ``text`` is without ``!``."""

    text: str
    excludes: bool = False
    _test: Test = field(default=lambda *_: False, compare=False, repr=False)

    @classmethod
    def parse(cls, text: str) -> OpPattern:
        named = text.strip().removeprefix("!").strip()
        if not named:
            raise SondeError("an empty text selects no op", slug="op-pattern")
        return cls(named, named != text.strip(), _test_of(named))

    @classmethod
    def of_class(cls, name: str) -> OpPattern:
        """The modules of a class, and no operator of the same name."""
        return cls(name, _test=lambda _name, _type, scope, _leaf: _is_in_class(name, scope))

    @classmethod
    def of_function(cls, name: str) -> OpPattern:
        """The ops that compute a function of torch."""
        return cls(f"torch.{name}", _test=_function_test(name))

    def __str__(self) -> str:
        return f"!{self.text}" if self.excludes else self.text

    @property
    def is_regex(self) -> bool:
        return self.text.startswith("name-regex(")

    def matches(
        self, name: str, op_type: str, scope: str | None = None, is_leaf: bool = False
    ) -> bool:
        """Whether an op, or a leaf, is one that the pattern names; ``!`` plays no part.

        ``scope``: that of a leaf; the full name of an op begins with its own.
        """
        if not is_leaf and "/" in name:
            scope = name.rpartition("/")[0]
        return self._test(name, op_type, scope or "", is_leaf)


def selects(
    patterns: Sequence[OpPattern],
    name: str,
    op_type: str,
    scope: str | None = None,
    is_leaf: bool = False,
) -> bool:
    """Whether a list of patterns selects an op: the last one that matches decides; if none does,
    an op is selected if there is no pattern, or if the first one excludes."""
    for pattern in reversed(patterns):
        if pattern.matches(name, op_type, scope, is_leaf):
            return not pattern.excludes
    return not patterns or patterns[0].excludes


def parse_all(texts: Iterable[str]) -> tuple[OpPattern, ...]:
    return tuple(map(OpPattern.parse, texts))


# ------------------------------------------------------------------------------ the forms


def _test_of(text: str) -> Test:
    if text.startswith("name-regex"):
        regex = _regex(text)
        return lambda name, _type, _scope, _leaf: regex.matches(name)
    if "/" in text:
        return _path_test(text)
    if _LAST_PART.search(text):
        return lambda name, _type, _scope, _leaf: name.rpartition("/")[2] == text
    return _remembered(_dotted_test(text) if "." in text or "::" in text else _word_test(text))


def _remembered(test: Test) -> Test:
    """``test`` with its answers for ops remembered, which depend on type and scope alone. A graph
    has many more ops than modules."""
    known: dict[tuple[str, str], bool] = {}

    def remembered(name: str, op_type: str, scope: str, is_leaf: bool) -> bool:
        if is_leaf:
            return test(name, op_type, scope, is_leaf)
        found = known.get((op_type, scope))
        if found is None:
            if len(known) > _MOST_REMEMBERED:
                known.clear()
            found = known[op_type, scope] = test(name, op_type, scope, is_leaf)
        return found

    return remembered


def _regex(text: str) -> LinearRegex:
    match = _REGEX.match(text)
    if match is None:
        raise SondeError(f"{text!r} is not of the form name-regex(...)", slug="op-pattern")
    try:
        return LinearRegex(match[1])
    except re.error as error:
        raise SondeError(
            f"{text!r} is not a regular expression: {error}", slug="op-pattern"
        ) from None


def _path_test(text: str) -> Test:
    path = text.strip("/")
    parts = path.split("/")

    def is_anchored(name: str, _type: str, scope: str, _leaf: bool) -> bool:
        return name == text or f"{scope}/".startswith(f"{path}/")

    def is_in_scope(_name: str, _type: str, scope: str, _leaf: bool) -> bool:
        labels = scope.split("/")
        return any(
            all(map(_is_label, parts, labels[start:]))
            for start in range(len(labels) - len(parts) + 1)
        )

    is_inside = _remembered(is_in_scope)

    def is_relative(name: str, op_type: str, scope: str, is_leaf: bool) -> bool:
        if name == text or (not is_leaf and name.endswith(f"/{text}")):
            return True
        return is_inside(name, op_type, scope, is_leaf)

    return is_anchored if parts[0] in _ANCHORS else is_relative


def _is_label(part: str, label: str) -> bool:
    """Whether a part of a pattern is a part of a scope, ``fc1-Linear``, or the name in it."""
    return part in (label, label.rpartition("-")[0])


def _dotted_test(text: str) -> Test:
    qualified = _qualified_test(text)
    modules = text.split(".")

    def test(name: str, op_type: str, scope: str, is_leaf: bool) -> bool:
        if name == text or _is_in_module(modules, name, scope, is_leaf):
            return True
        return qualified is not None and qualified(name, op_type, scope, is_leaf)

    return test


def _qualified_test(text: str) -> Test | None:
    if match := _ATEN.fullmatch(text):
        wanted = match[1]
        return lambda _name, op_type, _scope, _leaf: op_type in (wanted, f"{wanted}_")
    if match := _CLASS.fullmatch(text):
        cls = match[1]
        return lambda _name, _type, scope, _leaf: _is_in_class(cls, scope)
    if match := _FUNCTION.fullmatch(text):
        return _function_test(match[1].replace(".", "_"))
    return None


def _function_test(function: str) -> Test:
    if function[0].isupper() or kinds.is_composed(function):
        return lambda _name, op_type, _scope, leaf: not leaf and kinds.computes(function, op_type)
    stem = _stem(function)
    gradients = (f"{stem}_backward", f"{stem}_backward_data")
    return lambda _name, op_type, _scope, leaf: (
        not leaf
        and (
            _stem(op_type) in (stem, *gradients)
            or (kinds.computes(function, op_type) and "backward" in op_type)
        )
    )


@lru_cache(maxsize=4096)
def _stem(op_type: str) -> str:
    """The name of a function without what ATen adds to it."""
    name = op_type.strip("_").removeprefix("native_")
    return name.removesuffix("_forward").removesuffix("_with_indices")


def _word_test(word: str) -> Test:
    lower = word.lower()
    is_complete = kinds.is_complete_name(word)
    computes = is_complete or kinds.is_composed(word)
    modules = [word]

    def test(name: str, op_type: str, scope: str, is_leaf: bool) -> bool:
        if _is_in_class(word, scope) or _is_in_module(modules, name, scope, is_leaf):
            return True
        if is_leaf and (name == word or name.rpartition(".")[2] == word):
            return True
        if computes and not is_leaf and kinds.computes(word, op_type):
            return True
        return not is_complete and lower in op_type.lower()

    return test


def _is_in_class(cls: str, scope: str) -> bool:
    return any(part.cls == cls or part.label == cls for part in parts_of(scope))


def _is_in_module(modules: list[str], name: str, scope: str, is_leaf: bool) -> bool:
    """Whether an op, or a leaf, is in a module whose path has these names, one after the other."""
    names = [part.name for part in parts_of(scope)]
    if is_leaf and not names:  # A graph whose leaves have no scope.
        names = name.removesuffix(".grad").split(".")[:-1]
    size = len(modules)
    return any(
        names[start : start + size] == modules
        or (
            names[start] == "network"
            and modules[0] in _NETWORK_NAMES
            and names[start + 1 : start + size] == modules[1:]
        )
        for start in range(len(names) - size + 1)
    )
