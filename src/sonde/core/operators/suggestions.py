"""Suggests what a user meant by a pattern that matches no op."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

from sonde.core.operators import kinds
from sonde.core.operators.patterns import NamedOp, OpPattern, parts_of

_MOST: Final = 3
_LISTED: Final = 6
_CUTOFF: Final = 0.6
_NAME_CUTOFF: Final = 0.4
_AS_LIKE: Final = 0.05


def suggestion(pattern: OpPattern, ops: Iterable[NamedOp]) -> str:
    """The end of a sentence that says which names are like the pattern, from ``; `` on; empty if
    there is nothing to suggest.

    A word with a capital is compared with module classes and MindSpore's names, a text with dots
    with modules and parameters, one with slashes with full names and scopes, any other with op
    types, modules, parameters and functions.
    """
    known = list(ops)
    text = pattern.text.removeprefix("name-regex(").removesuffix(")")
    if pattern.is_regex or "/" in text or "-op" in text:
        return _nearest(text, _full_names(known, text), _NAME_CUTOFF)
    if "." in text:
        last = text.rpartition(".")[2]
        return _nearest(text, _module_names(known)) or suggestion(OpPattern.parse(last), known)
    classes = _classes(known)
    if text[0].isupper():
        found = _nearest(text, [*classes, *_mindspore_names(known)])
        return found or _listed("the module classes are", classes)
    return _nearest(text, _words(known)) or _listed("the op types are", _types(known))


def _nearest(text: str, names: Iterable[str], cutoff: float = _CUTOFF) -> str:
    by_lower: dict[str, list[str]] = {}
    for name in names:
        alike = by_lower.setdefault(name.lower(), [])
        if name not in alike:
            alike.append(name)
    word = text.lower()
    close = difflib.get_close_matches(word, by_lower, n=_MOST, cutoff=cutoff)
    if not close:
        return ""
    least = _likeness(word, close[0]) - _AS_LIKE
    best = [name for each in close if _likeness(word, each) >= least for name in by_lower[each]]
    found = list(map(repr, best[:_MOST]))
    if len(found) == 1:
        return f"; did you mean {found[0]}?"
    return f"; did you mean {', '.join(found[:-1])} or {found[-1]}?"


def _likeness(word: str, name: str) -> float:
    return difflib.SequenceMatcher(None, name, word).ratio()


def _listed(what: str, names: Iterable[str]) -> str:
    some = list(names)
    more = ", ..." if len(some) > _LISTED else ""
    return f"; {what} {', '.join(some[:_LISTED])}{more}" if some else ""


def _full_names(ops: list[NamedOp], text: str) -> Iterable[str]:
    if text.endswith("/"):
        return dict.fromkeys(
            f"{'/'.join(parts[: end + 1])}/"
            for op in ops
            for parts in [(op.scope or "").split("/")]
            for end in range(1, len(parts))
        )
    names = dict.fromkeys(op.name for op in ops)
    return names if "/" in text else dict.fromkeys(name.rpartition("/")[2] for name in names)


def _classes(ops: list[NamedOp]) -> Iterable[str]:
    return dict.fromkeys(part.cls for op in ops for part in parts_of(op.scope or ""))


def _types(ops: list[NamedOp]) -> Iterable[str]:
    return dict.fromkeys(op.type for op in ops if not op.is_leaf)


def _module_names(ops: list[NamedOp]) -> Iterable[str]:
    """The paths of modules, without the network, and the names of parameters."""
    found: dict[str, None] = {}
    for op in ops:
        names = [part.name for part in parts_of(op.scope or "")]
        for end in range(2, len(names) + 1):
            found[".".join(names[1:end])] = None
        if op.is_leaf:
            found[op.name] = None
    return found


def _mindspore_names(ops: list[NamedOp]) -> Iterable[str]:
    """MindSpore's names of the operators that ran."""
    types = list(_types(ops))
    return (
        name
        for name in sorted(kinds.MINDSPORE_NAMES)
        if any(kinds.computes(name, each) for each in types)
    )


def _words(ops: list[NamedOp]) -> Iterable[str]:
    modules = (part.name for op in ops for part in parts_of(op.scope or ""))
    return dict.fromkeys((*_types(ops), *modules, *_module_names(ops)))
