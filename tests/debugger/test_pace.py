"""How long steps take, with and without the debugger, by a clock that is set by hand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sonde.debugger.pace import Pace


class Clock:
    """The time, and how much of it was work of the debugger."""

    def __init__(self) -> None:
        self.now = 100.0
        self.own = 3.0
        self._is_own = False

    def pass_by(self, seconds: float) -> None:
        self.now += seconds
        if self._is_own:
            self.own += seconds

    @contextmanager
    def own_work(self) -> Iterator[None]:
        self._is_own = True
        yield
        self._is_own = False


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def pace(clock: Clock) -> Pace:
    return Pace(lambda: clock.own, lambda: clock.now)


def test_what_the_debugger_does_is_no_part_of_a_step_without_it(clock: Clock, pace: Pace) -> None:
    """Three steps of 1 s of training, with 0.25 s for ops in the middle, 0.5 s for weights at the
    end, and pauses of 10 s everywhere."""
    clock.pass_by(7.0)
    pace.begin()
    found = []
    for _ in range(3):
        clock.pass_by(0.75)
        with pace.standing_still():
            clock.pass_by(10.0)
        with clock.own_work():
            clock.pass_by(0.25)
            with pace.standing_still():
                clock.pass_by(10.0)
        clock.pass_by(0.25)
        with clock.own_work():
            found.append(pace.step_over())
            clock.pass_by(0.5)
            with pace.standing_still():
                clock.pass_by(10.0)
            pace.next_step()
    assert found == [(1.25, 1.0), (1.75, 1.0), (1.75, 1.0)]


def test_own_work_that_began_before_the_first_step_is_no_part_of_it(
    clock: Clock, pace: Pace
) -> None:
    with clock.own_work():
        clock.pass_by(10.0)
        pace.begin()
        clock.pass_by(0.5)
    clock.pass_by(1.0)
    assert pace.step_over() == (1.5, 1.0)


def test_a_pause_that_is_broken_off_is_no_part_of_a_step(clock: Clock, pace: Pace) -> None:
    def break_off() -> None:
        with pace.standing_still():
            clock.pass_by(5.0)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        break_off()
    clock.pass_by(1.0)
    assert pace.step_over() == (1.0, 1.0)


def test_more_own_work_than_time_leaves_nothing(clock: Clock, pace: Pace) -> None:
    """What torch does to show ops is an estimate, and may be too much."""
    clock.own += 2.0
    clock.pass_by(1.0)
    assert pace.step_over() == (1.0, 0.0)
