"""Numbers as text."""

from __future__ import annotations

import json
import math

import pytest

from sonde.core.text.number_text import (
    count_text,
    json_value,
    long_duration,
    number_text,
    scientific,
    size_text,
)


def test_a_float_has_significant_digits_and_an_integer_is_in_full() -> None:
    assert number_text(1234567) == "1234567"
    assert number_text(3.14159265) == "3.142"
    assert number_text(3.14159265, 6) == "3.14159"
    assert number_text(math.nan) == "nan"
    assert (number_text(None), number_text(None, missing="-")) == ("", "-")
    assert number_text("sgd") == "sgd"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (math.inf, "inf"),
        (math.nan, "nan"),
        (1.25, "1.25e+00"),
        (12345.0, "1.23e+04"),
        (-1.5e-4, "-1.50e-04"),
    ],
)
def test_small_and_large_numbers_have_an_exponent(value: float, text: str) -> None:
    assert scientific(value) == text


def test_counts_sizes_and_times_have_their_unit() -> None:
    assert [count_text(n, "op") for n in (0, 1, 1200)] == ["0 ops", "1 op", "1,200 ops"]
    assert [size_text(n) for n in (0, 999, 1000, 12_400_000)] == ["0 B", "999 B", "1 kB", "12.4 MB"]
    assert [long_duration(s) for s in (1.25, 125, 3725)] == ["1.2 s", "2m05s", "1h02m"]


def test_numbers_that_json_lacks_are_text_at_any_depth() -> None:
    value = json_value({1: [math.nan, (math.inf, -math.inf)], "x": {"y": 0.5, "z": None}})
    assert value == {"1": ["NaN", ["Infinity", "-Infinity"]], "x": {"y": 0.5, "z": None}}
    json.dumps(value, allow_nan=False)
