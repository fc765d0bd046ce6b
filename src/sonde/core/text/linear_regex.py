"""Matches names against regular expressions of users, in time proportional to the name's length.

Python's ``re`` backtracks: ``(a+)+b`` takes hours on forty letters, cannot be interrupted from
another thread, and so hangs a server or a training. Here the expression is parsed by Python's own
parser and executed as a finite automaton, whose states are computed when they are first needed
(Thompson 1968; RE2 works the same way). What an automaton cannot do is refused: back-references,
look-behind, atomic groups, possessive repetition, and look-ahead except at the very start, where
``(?!A)B`` is two expressions of which the text must not match one and must match the other.

A match costs at most (length of the name) x (size of the expression) small operations, whatever
both contain; a name whose letters led to known states costs one lookup per letter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from importlib import import_module
from itertools import accumulate, count
from typing import Any, Final

from sonde.core.errors import SondeError
from sonde.core.text.terminal_text import quoted

try:
    _names: Any = import_module("re._constants")
    _syntax: Any = import_module("re._parser")
except ImportError:  # Python 3.10
    _names, _syntax = import_module("sre_constants"), import_module("sre_parse")

MOST_LETTERS: Final = 2_000
"""The length of an expression."""
MOST_STATES: Final = 2_000
"""The size of an expression after ``x{3}`` is written out as ``xxx``."""
_MOST_DEPTH: Final = 100
_MOST_PARTS: Final = 50_000
_MOST_REMEMBERED: Final = 200_000
"""Moves, and places in states, that are remembered; beyond that all are forgotten, which bounds the
memory to some 30 MB."""
_REFUSED: Final = {
    "GROUPREF": "a back-reference",
    "GROUPREF_EXISTS": "a back-reference",
    "ASSERT": "look-ahead that is not at its start, or look-behind",
    "ASSERT_NOT": "look-ahead that is not at its start, or look-behind",
    "ATOMIC_GROUP": "an atomic group",
    "POSSESSIVE_REPEAT": "possessive repetition",
}

Predicate = Callable[[str], bool]


class RegexError(SondeError):
    """An expression that is not matched in linear time, or is too large."""

    def __init__(self, pattern: str, why: str) -> None:
        super().__init__(f"the regular expression {quoted(pattern)} {why}", slug="regex")


def _depth(pattern: str) -> int:
    """How deeply groups are nested, at most; parentheses that are letters count, too."""
    depths = accumulate((letter == "(") - (letter == ")") for letter in pattern)
    return max(depths, default=0)


class LinearRegex:
    """A compiled expression. May be used from several threads.

    ``is_prefix``: the expression must match a part of the text from its start on, as in
    ``re.match``; else the whole text, as in ``re.fullmatch``. ``$`` is the end of the text, also
    where a line end precedes it. Raises ``re.error`` if the text is not a regular expression, and
    RegexError if it cannot be matched in linear time.
    """

    def __init__(self, pattern: str, *, is_prefix: bool = False) -> None:
        if len(pattern) > MOST_LETTERS:
            raise RegexError(
                pattern, f"has {len(pattern)} characters; at most {MOST_LETTERS} are allowed"
            )
        if _depth(pattern) > _MOST_DEPTH:
            raise RegexError(pattern, "is nested too deeply")
        try:
            parsed = _syntax.parse(pattern)
            items, flags = list(parsed), parsed.state.flags
            self._ahead: list[tuple[bool, _Automaton]] = []
            while items and str(items[0][0]) in ("ASSERT", "ASSERT_NOT") and items[0][1][0] == 1:
                kind, (_, inner) = items.pop(0)
                expected = str(kind) == "ASSERT"
                self._ahead.append((expected, _Automaton(pattern, inner, flags, is_prefix=True)))
            self._rest = _Automaton(pattern, items, flags, is_prefix=is_prefix)
        except (RecursionError, OverflowError):
            raise RegexError(pattern, "is nested too deeply, or has too large a number") from None

    def matches(self, text: str) -> bool:
        return self._rest.matches(text) and all(
            ahead.matches(text) == expected for expected, ahead in self._ahead
        )


class _Automaton:
    """The deterministic automaton of ``items``, parts of a parsed expression."""

    def __init__(self, pattern: str, items: Iterable[Any], flags: int, *, is_prefix: bool) -> None:
        self.program = _Program(pattern)
        then = self.program.any_text() if is_prefix else self.program.end
        self._start = self.program.sequence(items, flags, then)
        self.cache = _Cache()

    def matches(self, text: str) -> bool:
        cache = self.cache
        moves = cache.moves
        here = cache.number(frozenset((self._start,)), _START)
        for letter in text:
            found = moves[here].get(letter)
            if found is None:
                if cache.is_full:
                    states, before = cache.states[here]
                    cache = self.cache = _Cache()
                    moves = cache.moves
                    here = cache.number(states, before)
                found = self._move(cache, here, letter)
                cache.remember(here, letter, found)
            if found == _DEAD:
                return False
            here = found
        is_end = cache.ends.get(here)
        if is_end is None:
            states, before = cache.states[here]
            is_end = self.program.end in self.program.reachable(states, before, "")
            cache.ends[here] = is_end
        return is_end

    def _move(self, cache: _Cache, here: int, letter: str) -> int:
        states, before = cache.states[here]
        program = self.program
        after = frozenset(
            program.next[each]
            for each in program.reachable(states, before, letter)
            if each in program.tests and program.tests[each](letter)
        )
        if not after:
            return _DEAD
        return cache.number(after, letter if program.has_places else _ANY)


_START: Final = ""
_ANY: Final = "any"
_DEAD: Final = -1
"""The state from which no text matches."""


class _Cache:
    """The states of the automaton that were needed so far, and the moves between them.

    A state is the set of places in the expression, and the letter before the place in the text,
    which is needed for ``\\b`` and ``^`` only. Two threads may compute the same state twice.
    """

    def __init__(self) -> None:
        self.moves: dict[int, dict[str, int]] = {}
        self.ends: dict[int, bool] = {}
        self.states: dict[int, tuple[frozenset[int], str]] = {}
        self._numbers: dict[tuple[frozenset[int], str], int] = {}
        self._next = count()
        self._remembered = 0

    @property
    def is_full(self) -> bool:
        return self._remembered > _MOST_REMEMBERED

    def remember(self, here: int, letter: str, found: int) -> None:
        """That ``letter`` leads from one state to another."""
        self.moves[here][letter] = found
        self._remembered += 1

    def number(self, states: frozenset[int], before: str) -> int:
        known = self._numbers.get((states, before))
        if known is None:
            known = next(self._next)
            self.states[known] = states, before
            self.moves[known] = {}
            self._numbers[states, before] = known
            self._remembered += len(states)
        return known


class _Program:
    """The nondeterministic automaton of one expression: states that consume a letter (``tests``),
    that branch (``branches``), or that hold only at a place of the text (``places``)."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._parts = 0
        self.tests: dict[int, Predicate] = {}
        self.next: dict[int, int] = {}
        self.branches: dict[int, tuple[int, ...]] = {}
        self.places: dict[int, Callable[[str, str], bool]] = {}
        self._size = 0
        self.end = self._state()

    @property
    def has_places(self) -> bool:
        return bool(self.places)

    def reachable(self, states: Iterable[int], before: str, after: str) -> set[int]:
        """All states that are reached from ``states`` without a letter, between two letters."""
        found = set(states)
        waiting = list(found)
        while waiting:
            state = waiting.pop()
            if state in self.branches:
                onward = self.branches[state]
            elif state in self.places and self.places[state](before, after):
                onward = (self.next[state],)
            else:
                continue
            for each in onward:
                if each not in found:
                    found.add(each)
                    waiting.append(each)
        return found

    # -------------------------------------------------------------- building

    def _state(self) -> int:
        self._size += 1
        if self._size > MOST_STATES:
            raise RegexError(
                self._pattern, f"needs more than {MOST_STATES} states; repeat less often"
            )
        return self._size - 1

    def _count_part(self) -> None:
        """Bounds the work of building: an empty group that is repeated adds no state."""
        self._parts += 1
        if self._parts > _MOST_PARTS:
            raise RegexError(self._pattern, "repeats too often")

    def _branch(self, *onward: int) -> int:
        state = self._state()
        self.branches[state] = onward
        return state

    def _test(self, predicate: Predicate, then: int) -> int:
        state = self._state()
        self.tests[state], self.next[state] = predicate, then
        return state

    def any_text(self) -> int:
        """A state from which any text leads to the end."""
        loop = self._branch()
        self.branches[loop] = (self._test(lambda _: True, loop), self.end)
        return loop

    def sequence(self, items: Iterable[Any], flags: int, then: int) -> int:
        """The first state of ``items``, which lead to ``then``."""
        self._count_part()
        for kind, value in reversed(list(items)):
            self._count_part()
            then = self._item(str(kind), value, flags, then)
        return then

    def _item(self, kind: str, value: Any, flags: int, then: int) -> int:
        if kind in _REFUSED:
            raise RegexError(
                self._pattern,
                f"contains {_REFUSED[kind]}, which cannot be matched in bounded time; write it "
                "without",
            )
        if kind == "SUBPATTERN":
            _, added, removed, items = value
            return self.sequence(items, (flags | added) & ~removed, then)
        if kind == "BRANCH":
            return self._branch(*(self.sequence(each, flags, then) for each in value[1]))
        if kind in ("MAX_REPEAT", "MIN_REPEAT"):
            least, most, items = value
            return self._repeat(least, most, items, flags, then)
        if kind == "AT":
            state = self._state()
            self.places[state], self.next[state] = _place(str(value), flags), then
            return state
        return self._test(_letter_test(kind, value, flags), then)

    def _repeat(self, least: int, most: int, items: Any, flags: int, then: int) -> int:
        if most == _names.MAXREPEAT:
            loop = self._branch()
            self.branches[loop] = (self.sequence(items, flags, loop), then)
            first = loop
        else:
            first = then
            for _ in range(most - least):
                first = self._branch(self.sequence(items, flags, first), then)
        for _ in range(least):
            first = self.sequence(items, flags, first)
        return first


def _is_word(letter: str) -> bool:
    return letter.isalnum() or letter == "_"


def _is_ascii_word(letter: str) -> bool:
    return letter.isascii() and _is_word(letter)


def _place(kind: str, flags: int) -> Callable[[str, str], bool]:
    """Whether a place between two letters (empty: none) is the one that an anchor asks for."""
    is_word = _is_ascii_word if flags & re.ASCII else _is_word
    if kind == "AT_BEGINNING" and flags & re.MULTILINE:
        return lambda before, after: before in ("", "\n")
    if kind in ("AT_BEGINNING", "AT_BEGINNING_STRING"):
        return lambda before, after: before == ""
    if kind == "AT_END" and flags & re.MULTILINE:
        return lambda before, after: after in ("", "\n")
    if kind in ("AT_END", "AT_END_STRING"):
        return lambda before, after: after == ""
    expected = kind == "AT_BOUNDARY"
    return lambda before, after: (is_word(before) != is_word(after)) == expected


def _letter_test(kind: str, value: Any, flags: int) -> Predicate:
    if kind == "ANY":
        return (lambda _: True) if flags & re.DOTALL else (lambda letter: letter != "\n")
    if kind == "IN":
        parts = [(str(name), part) for name, part in value]
    else:
        parts = [("NEGATE", None), ("LITERAL", value)] if kind == "NOT_LITERAL" else [(kind, value)]
    negated = parts[0][0] == "NEGATE"
    tests = [_part_test(name, part, flags) for name, part in parts[negated:]]

    def test(letter: str) -> bool:
        forms = _forms(letter) if flags & re.IGNORECASE else (letter,)
        return any(one(form) for one in tests for form in forms) != negated

    return test


def _forms(letter: str) -> tuple[str, ...]:
    """The letter in both cases, as far as they are single letters."""
    return tuple(form for form in {letter, letter.lower(), letter.upper()} if len(form) == 1)


def _part_test(name: str, part: Any, flags: int) -> Predicate:
    if name == "LITERAL":
        return lambda letter: ord(letter) == part
    if name == "RANGE":
        low, high = part
        return lambda letter: low <= ord(letter) <= high
    word = str(part)  # CATEGORY_NOT_DIGIT and its like
    expected = "_NOT_" not in word
    kind = word.rpartition("_")[2]
    test: Predicate = {"DIGIT": str.isdecimal, "SPACE": str.isspace, "WORD": _is_word}[kind]
    if flags & re.ASCII:
        return lambda letter: (letter.isascii() and test(letter)) == expected
    return lambda letter: test(letter) == expected
