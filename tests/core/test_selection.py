"""The steps and ops that a text selects."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sonde.core.errors import SondeError
from sonde.core.selection import Selection, parse_steps


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("0", [0], [1]),
        ("0|5-8|100-120", [0, 5, 8, 100, 120], [1, 4, 9, 99, 121]),
        (" 3 - 4 | 7 ", [3, 4, 7], [5, 6]),
        ("all", [0, 10**12], []),
        ("5|1-9|8-10", [1, 10], [0, 11]),
    ],
)
def test_a_text_selects_its_steps(text: str, inside: list[int], outside: list[int]) -> None:
    steps = parse_steps(text)
    assert all(step in steps for step in inside)
    assert not any(step in steps for step in outside)


@pytest.mark.parametrize("text", ["", "a", "1-", "-1", "1--2", "1,2", "1|", "1-2-3", "0x1", "1.5"])
def test_an_invalid_list_of_steps_is_refused(text: str) -> None:
    with pytest.raises(SondeError, match="is not a list of steps"):
        parse_steps(text)


def test_a_range_that_runs_backwards_says_how_to_write_it() -> None:
    with pytest.raises(SondeError, match="write 3-8"):
        parse_steps("8-3")


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 10)), min_size=1, max_size=8))
def test_any_list_of_ranges_has_exactly_its_steps_and_prints_itself(
    spans: list[tuple[int, int]],
) -> None:
    text = "|".join(f"{first}-{first + more}" if more else str(first) for first, more in spans)
    steps = parse_steps(text)
    expected = {step for first, more in spans for step in range(first, first + more + 1)}
    assert {step for step in range(90) if step in steps} == expected
    assert steps.last == max(expected)
    assert parse_steps(str(steps)) == steps
    assert all(a[1] + 1 < b[0] for a, b in zip(steps.ranges, steps.ranges[1:], strict=False))


def test_all_steps_have_no_last() -> None:
    assert parse_steps("all").last is None
    assert str(parse_steps(" all ")) == "all"


def test_a_selection_without_ranks_has_them_all() -> None:
    assert Selection().wants_rank(7)
    some = Selection(ranks=frozenset({0, 3}))
    assert [rank for rank in range(5) if some.wants_rank(rank)] == [0, 3]
