import itertools

from hypothesis import given
from hypothesis import strategies as st

from sonde.profile.analyse.intervals import intersect, length, subtract, union

SPANS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=8)


def moments(spans: list[tuple[int, int]]) -> set[int]:
    return {moment for begin, end in spans for moment in range(begin, end)}


@given(SPANS)
def test_a_union_covers_every_moment_once_and_in_order(spans: list[tuple[int, int]]) -> None:
    merged = union(spans)
    assert moments(merged) == moments(spans)
    assert length(merged) == len(moments(spans))
    assert all(a[1] < b[0] for a, b in itertools.pairwise(merged))


@given(SPANS, SPANS)
def test_difference_and_intersection_are_those_of_sets(
    a: list[tuple[int, int]], b: list[tuple[int, int]]
) -> None:
    first, second = union(a), union(b)
    assert moments(subtract(first, second)) == moments(first) - moments(second)
    assert moments(intersect(first, second)) == moments(first) & moments(second)


@given(SPANS, SPANS)
def test_difference_and_intersection_add_up_to_the_whole(
    a: list[tuple[int, int]], b: list[tuple[int, int]]
) -> None:
    first, second = union(a), union(b)
    assert length(subtract(first, second)) + length(intersect(first, second)) == length(first)
