"""How long steps take, by a clock that is set by hand."""

from __future__ import annotations

import pytest

from sonde.debugger.steps import StepTimer


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def advance(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def timer(clock: Clock) -> StepTimer:
    return StepTimer(lambda: clock.now)


def test_the_work_of_the_debugger_after_a_step_counts_only_with_the_debugger(
    clock: Clock, timer: StepTimer
) -> None:
    """Three steps of 1 s of training, with 0.5 s of work after each, and pauses of 10 s."""
    clock.advance(7.0)
    timer.begin()
    found = []
    for _ in range(3):
        clock.advance(0.75)
        with timer.paused():
            clock.advance(10.0)
        clock.advance(0.25)
        found.append(timer.step_ended())
        clock.advance(0.5)
        with timer.paused():
            clock.advance(10.0)
        timer.next_step()
    assert found == [(1.0, 1.0), (1.5, 1.0), (1.5, 1.0)]


def test_a_pause_that_an_exception_ends_is_no_part_of_a_step(
    clock: Clock, timer: StepTimer
) -> None:
    def interrupt() -> None:
        with timer.paused():
            clock.advance(5.0)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupt()
    clock.advance(1.0)
    assert timer.step_ended() == (1.0, 1.0)
