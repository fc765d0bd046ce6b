"""The smallest set of rows: minimal, and found with few executions."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from sonde.replay.row_bisection import smallest_rows


@given(
    st.integers(1, 60).flatmap(
        lambda n: st.tuples(st.just(n), st.sets(st.integers(0, n - 1), min_size=1, max_size=4))
    )
)
def test_exactly_the_needed_rows_are_found(case: tuple[int, set[int]]) -> None:
    count, needed = case
    found = smallest_rows(count, lambda rows: needed <= set(rows), most=10_000)
    assert found is not None
    assert set(found.rows) == needed
    assert found.is_minimal


def test_one_bad_row_of_256_takes_few_executions() -> None:
    found = smallest_rows(256, lambda rows: 77 in rows)
    assert found is not None
    assert found.rows == (77,)
    assert found.executions <= 17


def test_nothing_is_found_if_all_rows_do_not_suffice() -> None:
    assert smallest_rows(8, lambda rows: False) is None


def test_the_number_of_executions_is_bounded() -> None:
    calls: list[Sequence[int]] = []

    def holds(rows: Sequence[int]) -> bool:
        calls.append(rows)
        return len(rows) >= 900

    found = smallest_rows(1000, holds, most=50)
    assert found is not None
    assert len(calls) == found.executions == 50
    assert not found.is_minimal
