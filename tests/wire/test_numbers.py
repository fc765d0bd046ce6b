"""Numbers on their way through JSON."""

import json
import math

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from sonde.wire.numbers import to_wire


@given(st.floats() | st.integers(-(2**70), 2**70))
def test_a_number_is_read_back_as_it_was_written(value: float | int) -> None:
    text = msgspec.json.encode(to_wire(value))
    back = json.loads(text)
    number = (int if isinstance(value, int) else float)(back)
    assert number == value or (math.isnan(value) and math.isnan(number))


def test_numbers_that_javascript_would_round_are_texts() -> None:
    assert to_wire(2**53) == 2**53
    assert to_wire(2**53 + 1) == "9007199254740993"
    assert (to_wire(math.nan), to_wire(math.inf), to_wire(-math.inf)) == ("nan", "inf", "-inf")
