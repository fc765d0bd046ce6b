"""Parameters of conditions, good and bad; conditions joined; the recommended set."""

from __future__ import annotations

import math

import pytest

from sonde.core.errors import UsageError
from sonde.watch.conditions import (
    CATALOGUE,
    RECOMMENDED,
    Judgement,
    Needs,
    join_all,
    parse_condition,
)
from sonde.watch.conditions.contract import Value, Verdict


@pytest.mark.document(242)
def test_a_default_stands_in_only_where_no_other_check_is_set() -> None:
    assert parse_condition("tensor_all_zero") == parse_condition(
        "tensor_all_zero", {"zero_percentage_ge": 100}
    )
    only_maximum = parse_condition("weight_initialization", {"max_gt": 1.0})
    assert only_maximum.checks == (("max_gt", 1.0),)  # type: ignore[attr-defined]


@pytest.mark.document(
    243,
    says="parameters of a watch condition",
    how="checked when the watchpoint is made; one sentence says what is wrong",
)
@pytest.mark.parametrize(
    ("id", "parameters", "said"),
    [
        ("tensor_overflw", {}, "there is no condition 'tensor_overflw'; did you mean"),
        ("tensor_too_large", {}, "needs at least one of abs_mean_gt, max_gt, min_gt, mean_gt"),
        ("tensor_too_large", {"max": 1}, "no parameter 'max'; did you mean"),
        ("tensor_overflow", {"max_gt": 1}, "takes no parameters"),
        ("tensor_too_large", {"abs_mean_gt": -1}, "abs_mean_gt is -1; it must be a number of at"),
        ("tensor_too_large", {"max_gt": math.nan}, "max_gt is nan"),
        ("tensor_too_large", {"max_gt": math.inf}, "max_gt is inf"),
        ("tensor_all_zero", {"zero_percentage_ge": 101}, "from 0 to 100"),
        ("tensor_range", {"max_min_lt": 0}, "above 0"),
        ("tensor_range", {"range_percentage_lt": 5}, "needs both range_start_inclusive"),
        ("tensor_range", {"range_start_inclusive": 1, "range_end_inclusive": 2}, "at least one"),
        (
            "tensor_range",
            {"range_start_inclusive": 1, "max_min_gt": 2},
            "only with range_percentage_lt",
        ),
        (
            "tensor_range",
            {"range_start_inclusive": 2, "range_end_inclusive": 1, "range_percentage_lt": 5},
            "2 is above range_end_inclusive 1",
        ),
    ],
)
def test_bad_parameters_are_refused_with_a_sentence(
    id: str, parameters: dict[str, float], said: str
) -> None:
    with pytest.raises(UsageError, match="condition") as caught:
        parse_condition(id, parameters)
    assert said in str(caught.value)


HIT = Judgement("hit", "", (Value("a", 1.0, 2.0),))
CLEAR = Judgement("clear", "", (Value("b", 1.0, 0.0),))
OPEN = Judgement("undecided", "a NaN is in the way")


@pytest.mark.parametrize(
    ("parts", "verdict"),
    [
        ([HIT, CLEAR, OPEN], "clear"),
        ([HIT, OPEN], "undecided"),
        ([HIT, HIT], "hit"),
    ],
)
def test_conditions_are_joined_in_three_valued_logic(
    parts: list[Judgement], verdict: Verdict
) -> None:
    found = join_all(parts)
    assert found.verdict == verdict
    if verdict == "undecided":
        assert found.why == "a NaN is in the way"


def test_needs_add_up_but_initial_only_must_hold_for_all() -> None:
    zero = parse_condition("weight_initialization").needs
    moved = parse_condition("weight_not_changed").needs
    both = zero | moved
    assert both.previous
    assert both.at_step_end
    assert not both.initial_only
    assert (zero | Needs(initial_only=True)).initial_only


def test_every_recommended_watchpoint_can_be_made() -> None:
    for each in RECOMMENDED:
        condition = parse_condition(each.condition, dict(each.parameters))
        assert condition.target == each.target
        assert CATALOGUE[each.condition].target == each.target
