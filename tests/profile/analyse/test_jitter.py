import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sonde.profile.analyse.overview import bare_seconds, jitter, outliers

SECONDS = st.lists(st.floats(1e-4, 10), min_size=4, max_size=40)


@given(SECONDS)
def test_the_spread_is_that_of_numpys_percentiles(seconds: list[float]) -> None:
    lower, middle, upper = np.percentile(seconds, [25, 50, 75])
    assert np.isclose(jitter(seconds), (upper - lower) / middle)


def test_few_steps_have_neither_spread_nor_outliers() -> None:
    assert jitter([1.0, 2.0, 3.0]) == 0
    assert outliers([1.0, 1.0, 50.0]) == []


def test_an_outlier_is_far_beyond_the_middle_half() -> None:
    assert outliers([1.0, 1.01, 1.02, 0.99, 1.0, 1.6]) == [5]
    assert outliers([1.0, 1.01, 1.02, 0.99, 1.0, 1.2]) == []  # beyond the fence, but not by much
    assert outliers([1.0, 2.0, 3.0, 4.0, 5.0]) == []


def test_bare_steps_are_those_outside_the_window_after_two() -> None:
    seconds = [9.0, 9.0, 1.0, 2.0, 3.0, 70.0, 70.0, 4.0]
    assert bare_seconds(seconds, range(5, 7)) == [1.0, 2.0, 3.0, 4.0]
    assert bare_seconds(seconds, range(3, 7)) == [1.0, 4.0]
