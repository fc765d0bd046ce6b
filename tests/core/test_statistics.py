"""The names of statistics, and their text."""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError, fields, replace

import numpy as np
import pytest

from sonde import kernels
from sonde.core import statistics
from sonde.core.errors import SondeError
from sonde.core.statistics import CATEGORIES, HASHES, ROW_COLUMNS, Statistics, describe, raw_column

PLAIN = Statistics(
    count=320,
    nan_count=0,
    positive_inf_count=0,
    negative_inf_count=0,
    zero_count=39,
    negative_count=140,
    positive_count=141,
    max=4.0178,
    min=-2.3104,
    finite_max=4.0178,
    finite_min=-2.3104,
    avg=0.01312,
    l2norm=18.2412,
    std=1.0196,
    abs_mean=0.79,
)


def test_a_line_says_what_an_engineer_wants_to_know() -> None:
    assert describe(PLAIN, "float32", (32, 10)) == (
        "float32 [32, 10] min -2.31 max 4.02 mean 0.0131 std 1.02 norm 18.2 · 12% zero"
    )


def test_a_line_names_what_is_not_finite_and_then_shows_the_finite_range() -> None:
    bad = replace(
        PLAIN, nan_count=3, positive_inf_count=32, zero_count=0, max=math.nan, avg=math.nan
    )
    assert describe(bad, "bfloat16", [320]) == (
        "bfloat16 [320] finite min -2.31 max 4.02 · 3 nan (0.94%) · 32 +inf (10%)"
    )
    nothing = replace(PLAIN, nan_count=320, zero_count=0)
    assert str(nothing) == "nothing finite · 320 nan (100%)"


def test_small_tensors_read_as_what_they_are() -> None:
    empty = replace(PLAIN, count=0, zero_count=0)
    assert describe(empty, "float16", (0, 3)) == "float16 [0, 3] empty"
    one = replace(PLAIN, count=1, zero_count=0, finite_max=1.5, finite_min=1.5)
    assert describe(one, "float64", ()) == "float64 [] value 1.5"
    equal = replace(PLAIN, zero_count=320, finite_max=0.0, finite_min=0.0)
    assert describe(equal, "float32", (320,)) == "float32 [320] all 0"


def test_a_mask_reads_as_a_share_of_trues() -> None:
    mask = replace(PLAIN, positive_count=80, zero_count=240, max=1, min=0)
    assert describe(mask, "bool", (320,)) == "bool [320] 80 of 320 true (25%)"


def test_integers_read_in_full() -> None:
    tokens = replace(PLAIN, max=50256, min=0, finite_max=50256, finite_min=0, avg=20100.25)
    assert str(tokens).startswith("min 0 max 50256 mean 2.01e+04")


@pytest.mark.parametrize(
    ("zeros", "text"),
    [(1, "<0.1% zero"), (9_999, ">99.9% zero"), (9_960, "99.6% zero"), (9_900, "99% zero")],
)
def test_a_percentage_is_0_or_100_only_if_exact(zeros: int, text: str) -> None:
    assert str(replace(PLAIN, count=10_000, zero_count=zeros)).endswith(text)


def test_non_finite_elements_are_counted_together() -> None:
    assert (
        replace(PLAIN, nan_count=1, positive_inf_count=2, negative_inf_count=4).non_finite_count
        == 7
    )


def test_the_largest_magnitude_may_be_negative_and_is_nan_with_a_nan() -> None:
    assert PLAIN.abs_max == 4.0178
    assert replace(PLAIN, min=-9.0).abs_max == 9.0
    assert math.isnan(replace(PLAIN, max=math.nan, min=math.nan).abs_max)
    assert replace(PLAIN, max=5, min=-(2**63)).abs_max == 2**63


def test_statistics_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        PLAIN.max = 0.0  # type: ignore[misc]


def test_the_fields_are_the_columns_of_a_row_in_order() -> None:
    for column, field in enumerate(fields(Statistics)):
        assert getattr(statistics, field.name.upper()) == column
    assert statistics.DTYPE == len(fields(Statistics)) == ROW_COLUMNS - 1


def test_every_category_of_the_document_has_its_heading() -> None:
    assert {name: category.heading for name, category in CATEGORIES.items()} == {
        "max": "Max Value",
        "min": "Min Value",
        "avg": "Avg Value",
        "count": "Count",
        "negative zero count": "Negative Zero Count",
        "positive zero count": "Positive Zero Count",
        "zero count": "Zero Count",
        "nan count": "NaN Count",
        "negative inf count": "Negative Inf Count",
        "positive inf count": "Positive Inf Count",
        "l2norm": "L2Norm Value",
        "md5": "MD5",
        "std": "Std Value",
        "abs mean": "Abs Mean Value",
        "finite max": "Finite Max Value",
        "finite min": "Finite Min Value",
        "xxh3": "XXH3",
    }


@pytest.mark.document(137)
def test_the_counts_of_signs_follow_the_document_not_their_names() -> None:
    assert raw_column("negative zero count") == statistics.NEGATIVE_COUNT
    assert raw_column("positive zero count") == statistics.POSITIVE_COUNT


def test_hashes_come_after_the_numbers() -> None:
    assert [raw_column(name) for name in HASHES] == [ROW_COLUMNS, ROW_COLUMNS + 1]


def test_an_unknown_statistic_is_refused() -> None:
    with pytest.raises(SondeError, match=r"'median' is not a statistic; choose from max, min"):
        raw_column("median")


@pytest.mark.parametrize(
    "elements",
    [
        [1.5, -2.0, 0.0],
        [3.0],
        [-1e200, -1.5e200],  # Their squares are beyond what a float can hold.
        [1e-200, 2e-200],
        [math.inf, 1.0],
        [math.nan, -math.inf],
        [],
    ],
)
def test_zeros_that_are_not_stored_count_as_if_they_were(elements: list[float]) -> None:
    stored = np.array(elements, np.float64)
    whole = np.array([*elements, *[0.0] * 5], np.float64)
    address, shape = stored.ctypes.data, stored.shape
    found = kernels.summarize(address, "float64", shape, None).with_zeros(5)
    truth = kernels.summarize(whole.ctypes.data, "float64", whole.shape, None)
    for each in fields(Statistics):
        value, expected = getattr(found, each.name), getattr(truth, each.name)
        if each.name == "std" and np.isfinite(whole).all():
            scale = max(map(abs, elements), default=0.0) or 1.0
            expected = float(np.std(whole / scale)) * scale
        assert value == pytest.approx(expected, rel=1e-12, abs=0.0, nan_ok=True), each.name
