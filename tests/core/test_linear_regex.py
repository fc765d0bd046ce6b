"""Regular expressions of users: the same answers as Python's, in bounded work."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from sonde.core.text.linear_regex import MOST_STATES, LinearRegex, RegexError

LETTERS = "abxX/_-. 0é\n"
ATOMS = ["a", "b", "x", "/", ".", r"\.", r"\d", r"\w", r"\W", r"\s", "[ab]", "[^ab/]", "[a-x_-]"]
ANCHORS = ["^", r"\b", r"\B", r"\A"]
HOSTILE = [
    r"([a-zA-Z/0-9_.-]+)+!",
    "(a|a)*b",
    "(.*)*x",
    "a*a*a*a*a*b",
    "(?:x?){30}x{30}",
    "(a*)*b",
    "(a+)+$b",
    "(a|b|ab)*c",
    "(?:a{0,20}){0,20}b",
    "(a|b)*a(a|b){60}c",
    ".*.*.*.*.*.*.*!",
]


def _groups(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda pair: f"(?:{pair[0]}|{pair[1]})"),
        inner.map(lambda text: f"({text})*"),
        inner.map(lambda text: f"(?:{text})+?"),
        inner.map(lambda text: f"(?:{text})?"),
        inner.map(lambda text: f"(?:{text}){{1,3}}"),
        inner.map(lambda text: f"(?i:{text})"),
        inner.map(lambda text: f"(?s:{text})"),
    )


PATTERNS = st.recursive(st.sampled_from(ATOMS + ANCHORS), _groups, max_leaves=6)
TEXTS = st.text(LETTERS, max_size=6)


@pytest.mark.parametrize("pattern", ["(?!a).*", "(?=.*b)(?!.*/).+", "(?!(.*[./_])?(b|x)$).*"])
@given(text=TEXTS)
def test_look_ahead_at_the_start_is_matched(pattern: str, text: str) -> None:
    assume("\n" not in text)  # Before a line end at the end, re's $ matches, too.
    assert LinearRegex(pattern).matches(text) is (re.fullmatch(pattern, text) is not None)


@given(PATTERNS, TEXTS)
@example("(?:a|b)*x", "abX")
@example("(?i:x)", "X")
@example(r"a\b", "a")
@settings(max_examples=300)
def test_an_expression_matches_the_texts_that_re_matches(pattern: str, text: str) -> None:
    assume(text or "\\B" not in pattern)  # Python before 3.14 says that "" has no \B.
    expected = re.fullmatch(pattern, text) is not None
    regex = LinearRegex(pattern)
    assert regex.matches(text) is expected
    assert regex.matches(text) is expected  # Now from remembered states.
    is_prefix = re.match(pattern, text) is not None
    assert LinearRegex(pattern, is_prefix=True).matches(text) is is_prefix


def _calls(run: Callable[[], object]) -> int:
    """The number of calls of Python functions during ``run``: work, without a clock."""
    count = 0

    def note(frame: Any, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("pattern", HOSTILE)
@pytest.mark.parametrize("unit", ["a", "x", "ab", "aA/", "a!"])
def test_a_hostile_expression_costs_work_in_proportion_to_the_name(pattern: str, unit: str) -> None:
    regex = LinearRegex(pattern)
    for length in (100, 1000):
        name = (unit * length)[:length]
        assert _calls(lambda name=name: regex.matches(name)) <= 40 * MOST_STATES * length


@given(PATTERNS, st.text("ab/x", min_size=1, max_size=3))
@settings(max_examples=60)
def test_any_accepted_expression_costs_bounded_work_on_a_long_name(pattern: str, unit: str) -> None:
    regex = LinearRegex(f"(?:{pattern})*!")
    program = regex._rest.program
    size = len(program.tests) + len(program.branches) + len(program.places)
    assert _calls(lambda: regex.matches(unit * 300)) <= 40 * (size + 2) * 300 * len(unit)


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        (r"(a)\1", "back-reference"),
        (r"(a)?(?(1)b|c)", "back-reference"),
        ("a(?=b)b", "look-ahead"),
        ("((?!a).)*", "look-ahead"),
        ("(?!(?!a)b)c", "look-ahead"),
        ("(?<=a)b", "look-behind"),
        ("a" * 2001, "2001 characters"),
        ("a{2001}", "more than 2000 states"),
        ("(?:(?:a{100}){100}){100}", "more than 2000 states"),
        ("(?:){99999999}", "repeats too often"),
        ("(" * 900 + ")" * 900, "nested too deeply"),
    ],
)
def test_what_cannot_be_matched_in_linear_time_is_refused(pattern: str, why: str) -> None:
    with pytest.raises(RegexError, match=re.escape(why)) as refusal:
        LinearRegex(pattern)
    assert refusal.value.slug == "regex"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 does not have these")
@pytest.mark.parametrize("pattern", ["a*+", "(?>a*)b"])
def test_possessive_repetition_is_refused(pattern: str) -> None:
    with pytest.raises(RegexError, match=r"possessive|atomic"):
        LinearRegex(pattern)


def test_the_memory_of_states_is_bounded() -> None:
    regex = LinearRegex("(a|b)*a(a|b){300}")
    bits = 0x9E3779B97F4A7C15
    text = ""
    for _ in range(3000):
        bits = (bits * 6364136223846793005 + 1442695040888963407) % 2**64
        text += "ab"[bits >> 63]
    assert regex.matches(text) is (re.fullmatch("(a|b)*a(a|b){300}", text) is not None)
    assert sum(len(states) for states, _ in regex._rest.cache.states.values()) <= 210_000


def test_an_invalid_expression_is_an_error_of_re() -> None:
    with pytest.raises(re.error):
        LinearRegex("(")
