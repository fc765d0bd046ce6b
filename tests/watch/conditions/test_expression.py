"""Expressions: their values, and the syntax that is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sonde.core.errors import UsageError
from sonde.core.statistics import Statistics
from sonde.kernels import summarize_array
from sonde.watch.conditions import EXPRESSION_NAMES, Evidence, parse_condition


def statistics(*values: float) -> Statistics:
    return summarize_array(np.array(values, np.float32))


def verdict(
    text: str, now: Statistics | None = None, before: Statistics | None = None, step: int = 0
) -> str:
    condition = parse_condition("expression", None, text)
    evidence = Evidence(statistics=now or statistics(1, -4, 0, 3), previous=before, step=step)
    return condition.judge(evidence).verdict


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("max > 2", "hit"),
        ("max > 3", "clear"),
        ("max >= 3 and min <= -4", "hit"),
        ("-5 < min < -3 < max", "hit"),
        ("-5 < min < -4.5", "clear"),
        ("abs_max == 4", "hit"),
        ("not max > 2", "clear"),
        ("zero_percentage == 25", "hit"),
        ("mean == avg and mean == 0", "hit"),
        ("range == 7", "hit"),
        ("abs(min) > max", "hit"),
        ("max(1, max, 2) == 3", "hit"),
        ("min(max, 10) == 3", "hit"),
        ("sqrt(abs_max) == 2", "hit"),
        ("log10(25 * abs_max) == 2", "hit"),
        ("isinf(1 / (zero_count - 1))", "hit"),
        ("isnan(mean / mean)", "hit"),
        ("isinf(log(mean))", "hit"),
        ("sqrt(min) > 0", "undecided"),
        ("1 / (2 - 1) < max", "hit"),
        ("step >= 5", "clear"),
    ],
)
def test_an_expression_is_computed(text: str, expected: str) -> None:
    assert verdict(text) == expected


def test_the_expression_of_the_manual_compares_with_the_step_before() -> None:
    text = "nan_count > 0 or abs_max > 10 * prev.abs_max"
    assert verdict(text, statistics(1, 2)) == "undecided"
    assert verdict(text, statistics(1, math.nan)) == "hit"
    assert verdict(text, statistics(1, 2), statistics(1, 1)) == "clear"
    assert verdict(text, statistics(1, 11), statistics(1, 1)) == "hit"
    assert verdict(text, statistics(1, 2), statistics(1, math.nan)) == "undecided"


def test_an_expression_lists_its_needs_and_its_values() -> None:
    plain, former = (parse_condition("expression", None, t) for t in ("max > 1", "prev.max > 1"))
    assert not plain.needs.previous_statistics
    assert former.needs.previous_statistics
    found = plain.judge(Evidence(statistics=statistics(5)))
    assert [(value.name, value.actual) for value in found.values] == [("max", 5.0)]
    unknown = former.judge(Evidence(statistics=statistics(5)))
    assert unknown.why == "there is no value of the step before"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it is empty"),
        ("max >", "it ends too early"),
        ("max > > 1", "invalid syntax at column 7"),
        ("max", "a number, not a question"),
        ("max + 1", "a number, not a question"),
        ("maxx > 1", "did you mean 'max'?"),
        ("prev.maxx > 1", "did you mean 'max'?"),
        ("other.max > 1", "'other.max' cannot stand"),
        ("max ** 9 > 1", "only + - * /"),
        ("max in (1, 2)", "compared with"),
        ("__import__('os').system('true')", "the functions are"),
        ("max.__class__ > 1", "cannot stand"),
        ("(lambda: 1)() > 0", "the functions are"),
        ("[x for x in (1,)] == 1", "cannot stand"),
        ("max > 'a'", "is not a number"),
        ("max > True", "is not a number"),
        ("max > 1e999", "is not a number"),
        ("abs(1, 2) > 0", "abs takes one"),
        ("max(1) > 0", "two or more"),
        ("not max", "where a question"),
        ("(max > 1) + 1 > 0", "where a number is needed"),
        ("max > 0 or " * 70 + "max > 1", "parts"),
        ("1/0 > 1", "'1 / 0' divides by zero"),
        ("max > min / (2 - 2)", "divides by zero"),
        ("2 > 1", "'2 > 1' names no statistic"),
        ("max > 1 or log10(100) == 2", "'log10(100) == 2' names no statistic"),
        ("isnan(3)", "names no statistic"),
        ("(" * 400 + "1" + ")" * 400 + " > 0", "cannot be used"),
        ("max > 1" + " " * 1000, "longer than"),
    ],
)
def test_an_expression_with_forbidden_syntax_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_condition("expression", None, text)
    assert caught.value.slug == "expression"
    assert said in str(caught.value)


WORDS = [*EXPRESSION_NAMES, "0", "1.5", "-", "+", "/", "<", ">=", "and", "or", "not", "(", ")"]


@given(st.text(max_size=80) | st.lists(st.sampled_from(WORDS), max_size=7).map(" ".join))
@example("max > 1 or not prev.min / 0.5 >= zero_percentage")
def test_any_text_is_refused_or_becomes_a_condition(text: str) -> None:
    try:
        condition = parse_condition("expression", None, text)
    except UsageError:
        return
    assert condition.judge(Evidence(statistics=statistics(1, 2))).verdict in (
        "hit",
        "clear",
        "undecided",
    )


@pytest.mark.parametrize("name", EXPRESSION_NAMES)
def test_every_name_can_be_used(name: str) -> None:
    assert verdict(f"{name} > -1e9", before=statistics(1)) == "hit"
