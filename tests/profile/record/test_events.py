from hypothesis import given
from hypothesis import strategies as st
from tests.profile.made import event

from sonde.profile.analyse.intervals import length, union
from sonde.profile.record.events import nest


def test_an_event_owns_the_time_that_no_event_inside_it_covers() -> None:
    nested = nest([event("inner", 20, 50), event("outer", 0, 100), event("after", 100, 120)])
    assert [each.name for each in nested.events] == ["outer", "inner", "after"]
    assert nested.parents == (-1, 0, -1)
    assert nested.own == (70, 30, 20)
    assert [each.name for each in nested.roots()] == ["outer", "after"]


def test_of_two_events_that_start_together_the_longer_one_contains_the_other() -> None:
    nested = nest([event("short", 0, 10), event("long", 0, 30)])
    assert [each.name for each in nested.events] == ["long", "short"]
    assert nested.parents == (-1, 0)


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 30)), max_size=20))
def test_own_times_add_up_to_the_time_that_is_covered(spans: list[tuple[int, int]]) -> None:
    events = [event(str(i), begin, begin + took) for i, (begin, took) in enumerate(spans)]
    nested = nest(events)
    assert all(own >= 0 for own in nested.own)
    inside = [each for each in nested.events if nested.parents[nested.events.index(each)] >= 0]
    sticks_out = any(
        each.end > nested.events[nested.parents[nested.events.index(each)]].end for each in inside
    )
    covered = length(union((each.start, each.end) for each in events))
    assert sum(nested.own) <= covered
    if not sticks_out:
        assert sum(nested.own) == covered
