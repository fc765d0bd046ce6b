"""How long steps take, with and without the debugger, by a clock that is set by hand."""

from __future__ import annotations

from sonde.debugger.pace import Pace


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def walk(*, is_observed: bool) -> list[float]:
    """Three steps of 1 s of training, with 0.25 s for gradients in the middle, 0.5 s for weights
    at the end, and pauses of 10 s everywhere."""
    clock = Clock()
    pace = Pace(clock)
    clock.now += 7.0
    pace.begin()
    found = []
    for _ in range(3):
        clock.now += 0.75
        with pace.standing_still():
            clock.now += 10.0
        with pace.working():
            clock.now += 0.25
            with pace.standing_still():
                clock.now += 10.0
        clock.now += 0.25
        found.append(pace.step_over(is_observed=is_observed))
        clock.now += 0.5
        with pace.standing_still():
            clock.now += 10.0
        pace.next_step()
    return found


def test_steps_without_a_look_at_ops_are_those_the_training_has_by_itself() -> None:
    assert walk(is_observed=False) == [1.0, 1.0, 1.0]


def test_observed_steps_have_what_is_judged_in_them() -> None:
    assert walk(is_observed=True) == [1.25, 1.75, 1.75]


def test_a_pause_that_is_broken_off_is_no_part_of_a_step() -> None:
    clock = Clock()
    pace = Pace(clock)
    try:
        with pace.standing_still():
            clock.now += 5.0
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        clock.now += 1.0
    assert pace.step_over(is_observed=False) == 1.0
