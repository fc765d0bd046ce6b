"""Numbers on their way through JSON."""

import json
import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sonde.wire.numbers import from_wire, to_wire


@given(st.floats() | st.integers(-(2**70), 2**70))
def test_a_number_comes_back_as_it_was(value: float | int) -> None:
    text = msgspec.json.encode(to_wire(value))
    back = from_wire(json.loads(text))
    assert back == value or (math.isnan(value) and math.isnan(back))


def test_what_javascript_would_round_is_a_text() -> None:
    assert to_wire(2**53) == 2**53
    assert to_wire(2**53 + 1) == "9007199254740993"
    assert (to_wire(math.nan), to_wire(math.inf), to_wire(-math.inf)) == ("nan", "inf", "-inf")


def test_a_text_that_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        from_wire("lots")
