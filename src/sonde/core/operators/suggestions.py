"""Suggests what a user meant by a pattern that matches no op."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Final

from sonde.core.errors import SondeError
from sonde.core.graph import GRADIENTS, phase_of
from sonde.core.operators import kinds
from sonde.core.operators.patterns import NamedOp, OpPattern, parts_of
from sonde.core.settings import one_of
from sonde.core.text.terminal_text import quoted

_MOST: Final = 3
_LISTED: Final = 6
_CUTOFF: Final = 0.65
_LAST_PART_CUTOFF: Final = 0.75
"""Of the last parts of full names, whose first parts are alike in most ops of a network."""
_AS_LIKE: Final = 0.05
_MOST_TEXT: Final = 300
"""A longer text is not a mistyped name, and comparing it takes long."""
_MOST_NAMES: Final = 2000
_LEAST_WORD: Final = 3
"""A shorter word is a part of too many op types."""
_ANCHORS: Final = ("Default/", GRADIENTS, "recompute_Default/")
_NUMBER: Final = re.compile(r"-op[0-9]+$")
_SPECIAL: Final = re.compile(r"[\\*+?\[\](){}|^$]")
_NOT_LITERAL: Final = re.compile(r"\\.|\[[^\]]*\]|\{[^}]*\}")
_LIKE_REGEX: Final = re.compile(r"(?:name[-_ ]?)?(?:regex|regexp|re)\(", re.IGNORECASE)
_NAMESPACES: Final = frozenset({"torch", "nn", "F", "aten", "ops", "mint", "mindspore"})
_GRADIENT_WORDS: Final = frozenset({"grad", "grads", "gradient", "gradients"})


def suggestion(pattern: OpPattern, ops: Iterable[NamedOp]) -> str:
    """The end of a sentence that says which names are like the pattern, from ``; `` on; without
    such names it lists classes or op types for a word. Empty if there is nothing to suggest.

    A word with a capital is compared with module classes and MindSpore's names, a text with dots
    with modules and parameters, one with slashes with full names and scopes, any other with op
    types, modules, parameters and functions.
    """
    known = list(ops)
    if near := near_names(pattern, known):
        return near
    text = pattern.text
    if len(text) > _MOST_TEXT or not text.isidentifier():
        return ""
    if text[0].isupper():
        return _listed("the module classes are", _classes(known))
    return _listed("the op types are", _types(known))


def near_names(pattern: OpPattern, ops: Iterable[NamedOp]) -> str:
    """`suggestion`, but empty if no name is like the pattern."""
    known = list(ops)
    text = pattern.text
    if not known or len(text) > _MOST_TEXT:
        return ""
    if pattern.is_regex:
        return _for_regex(text.removeprefix("name-regex(").removesuffix(")"), known)
    if form := _for_gradient(text, known) or _for_other_form(text, known):
        return form
    if "/" in text or _NUMBER.search(text):
        return _for_path(text, known)
    if "." in text:
        return _for_dotted(text, known)
    return _for_word(text, known)


def _for_word(word: str, known: list[NamedOp]) -> str:
    if word[0].isupper():
        return _nearest(word, [*_classes(known), *_mindspore_names(known)])
    return _nearest(word, _words(known))


def _for_dotted(text: str, known: list[NamedOp]) -> str:
    """For a module, a parameter or a function: names that are similar; else the part of it that
    selects ops."""
    if near := _nearest(text, _module_names(known)):
        return near
    first, last = text.partition(".")[0], text.rpartition(".")[2]
    if first in _NAMESPACES:
        return _for_word(last, known) if last else ""
    words = text.split(".")
    starts = (".".join(words[:end]) for end in range(len(words) - 1, 0, -1))
    ends = (".".join(words[start:]) for start in range(1, len(words)))
    parts = (part for part in (*starts, *ends) if len(part) >= _LEAST_WORD)
    return next(filter(None, (_matched(part, known) for part in parts)), "")


def _for_other_form(text: str, known: list[NamedOp]) -> str:
    """For wildcards, several names in one text, an expression or a scope that is not written as
    one."""
    if _LIKE_REGEX.match(text):
        return "; a regular expression is written name-regex(...)"
    if re.search(r"[*?]", text):
        body = re.escape(text).replace(r"\*", ".*").replace(r"\?", ".")
        forms = (f"name-regex({body})", f"name-regex(.*{body}.*)")
        matched = next(filter(None, (_matched(each, known) for each in forms)), "")
        return f"; a pattern has no wildcards{matched}"
    parts = [part for part in re.split(r"[\s,;|]+", text) if part]
    if len(parts) > 1 and all(_matched(part, known) for part in parts):
        return f"; give each pattern by itself: {', '.join(map(quoted, parts))}"
    if text.isidentifier() and _matched(f"{text}/", known):
        return f"; did you mean '{text}/'?"
    return ""


def _matched(text: str, known: list[NamedOp]) -> str:
    """The end of a sentence that says what ``text`` matches; empty if that is nothing."""
    try:
        pattern = OpPattern.parse(text)
    except SondeError:
        return ""
    matched = [op.name for op in known if pattern.matches(*op)]
    if not matched:
        return ""
    more = f" and {len(matched) - 1:,} more" if len(matched) > 1 else ""
    return f"; {quoted(text)} matches {matched[0]}{more}"


def _for_path(text: str, known: list[NamedOp]) -> str:
    """For a full name, the end of one, or a scope: names whose last part is similar; else what the
    last part selects, or is similar to, as a word."""
    last = _NUMBER.sub("", text.strip("/").rpartition("/")[2])
    if not last:
        return ""
    alike = [name for name in _paths(known, text) if _is_like(last, _NUMBER.sub("", _end(name)))]
    if near := _nearest(text, alike[:_MOST_NAMES]):
        return near
    name, _, cls = last.rpartition("-")
    words = (word for word in (last, cls, name) if len(word) >= _LEAST_WORD)
    matched = next(filter(None, (_matched(word, known) for word in words)), "")
    return matched or _for_word(last, known)


def _for_regex(text: str, known: list[NamedOp]) -> str:
    inside = f"name-regex(.*({text}).*)" if "|" in text else f"name-regex(.*{text}.*)"
    try:
        pattern = OpPattern.parse(inside)
    except SondeError:  # Too long, for example.
        return ""
    if any(pattern.matches(*op) for op in known):
        return f"; it must match the whole name: {quoted(inside)}"
    if not _SPECIAL.search(text):
        return _for_path(text, known)
    for word in re.findall(r"[A-Za-z]\w+", _NOT_LITERAL.sub(" ", text)):
        if not any(word in op.name for op in known):
            hint = _for_gradient(word, known) or _for_word(word, known)
            return f"; no name contains {quoted(word)}{hint}"
    return ""


def _for_gradient(text: str, known: list[NamedOp]) -> str:
    """Where gradients are, for a name that asks for them; empty for other names."""
    owner, _, last = text.rpartition(".")
    if last.lower() not in _GRADIENT_WORDS:
        return ""
    scopes = dict.fromkeys(op.scope or "" for op in known if (op.scope or "").startswith(GRADIENTS))
    where = "; a gradient is an output of the op that computes it, in the backward pass"
    if not scopes:
        return f"{where}; there is no op of a backward pass here"
    hint = f"{where}: {GRADIENTS!r} selects all of them"
    while owner:
        pattern = OpPattern.parse(owner)
        for scope in scopes:
            if pattern.matches(f"{scope}/", "", scope):
                return f"{hint}, '{scope}/' those of {owner}"
        owner = owner.rpartition(".")[0]
    return hint


def _is_like(word: str, name: str) -> bool:
    return _likeness(word.lower(), name.lower()) >= _LAST_PART_CUTOFF


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
    return did_you_mean(best)


def did_you_mean(names: Iterable[str]) -> str:
    """The end of a sentence that suggests the first of these names; empty without names."""
    found = list(map(quoted, names))[:_MOST]
    return f"; did you mean {one_of(found)}?" if found else ""


def _likeness(word: str, name: str) -> float:
    return difflib.SequenceMatcher(None, name, word).ratio()


def _listed(what: str, names: Iterable[str]) -> str:
    some = list(names)
    more = ", ..." if len(some) > _LISTED else ""
    return f"; {what} {', '.join(some[:_LISTED])}{more}" if some else ""


def _end(path: str) -> str:
    """The last part of a full name or scope."""
    return path.strip("/").rpartition("/")[2]


def _paths(ops: list[NamedOp], text: str) -> Iterable[str]:
    """Full names and scopes, of the form that the user wrote: whole, or as many of the last parts,
    and of scopes only the names if there is no class."""
    size = None if text.startswith(_ANCHORS) else len(text.strip("/").split("/"))
    found: dict[str, None] = {}
    if not _NUMBER.search(text):
        has_class = "-" in text
        for scope in dict.fromkeys(op.scope or "" for op in ops):
            parts = scope.split("/")
            shown = parts if has_class or size is None else [_name_of(part) for part in parts]
            for end in range(2, len(parts) + 1):
                found["/".join(shown[:end][-(size or end) :]) + "/"] = None
    if not text.endswith("/"):
        for op in ops:
            parts = op.name.split("/")
            found["/".join(parts[-(size or len(parts)) :])] = None
    return found


def _name_of(label: str) -> str:
    return label.rpartition("-")[0] or label


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
    types = {(op.type, phase_of(op.scope or "")) for op in ops if not op.is_leaf}
    classes = set(_classes(ops))
    return (
        name
        for name in sorted(kinds.MINDSPORE_NAMES)
        if kinds.optimizer_class(name) in classes
        or any(kinds.computes(name, *each) for each in types)
    )


def _words(ops: list[NamedOp]) -> Iterable[str]:
    modules = (part.name for op in ops for part in parts_of(op.scope or ""))
    return dict.fromkeys((*_types(ops), *modules, *_module_names(ops)))
