"""Checks of the arguments of a call, in Sonde and in users' schedules and metrics."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sonde.core import arguments
from sonde.core.errors import SondeError


@pytest.mark.document(
    92,
    says="validator.check_non_negative_float, validator.check_positive_int, self.cls_name",
    how="`sonde.train.validator`, the same names",
)
@pytest.mark.parametrize(
    ("check", "good", "wrong_value", "wrong_type"),
    [
        (arguments.check_positive_int, [1, np.int64(3)], [0, -1], [1.0, True, "1", None]),
        (arguments.check_non_negative_int, [0, 2], [-1], [0.0, False]),
        (arguments.check_positive_float, [0.1, 2, np.float32(1)], [0, -1.0, math.inf], ["x", True]),
        (arguments.check_non_negative_float, [0, 0.0, 1.5], [-0.1, math.nan], [None, 1j]),
        (arguments.check_is_float, [0.0, -1.0], [math.nan], [1, True]),
        (arguments.check_bool, [True, False], [], [1, 0, None]),
    ],
)
def test_a_check_returns_what_is_good_and_refuses_the_rest(check, good, wrong_value, wrong_type):
    for value in good:
        assert check(value, "size", "Box") == value
    for error, values in ((ValueError, wrong_value), (TypeError, wrong_type)):
        for value in values:
            with pytest.raises(error, match=r"^Box: size must be .*\[argument-") as caught:
                check(value, "size", "Box")
            assert isinstance(caught.value, SondeError)


def test_words_are_checked_against_their_choices():
    assert arguments.check_string("b", ["a", "b"], "letter") == "b"
    with pytest.raises(ValueError, match=r"^letter must be one of 'a', 'b', not 'c'"):
        arguments.check_string("c", ["a", "b"], "letter")
    with pytest.raises(TypeError, match="must be a str"):
        arguments.check_string(1, ["a"], "letter")


def test_types_are_checked_and_a_bool_is_no_int():
    assert arguments.check_value_type("n", 3, [int, float]) == 3
    assert arguments.check_value_type("n", True, bool) is True
    with pytest.raises(TypeError, match="n must be int or float, not True"):
        arguments.check_value_type("n", True, [int, float])
    with pytest.raises(TypeError, match="must be int, not list"):
        arguments.check_value_type("n", list(range(100)), int)
