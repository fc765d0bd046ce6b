"""The speed of a training, computed from its recent steps."""

from __future__ import annotations

import msgspec

from sonde.server.live.steps import StepHistory
from sonde.wire.shapes import LossPoint


def point(
    step: int, seconds: float, bare: float | None = None, *, optimizer: str = ""
) -> LossPoint:
    """A step; one without ``bare`` seconds was observed."""
    return LossPoint(step, None, seconds, bare, bare is None, optimizer)


def speed(*points: LossPoint) -> tuple[float | None, float | None]:
    """Seconds of a step with Sonde and without, after a first step that does not count."""
    steps = StepHistory()
    for each in (point(-1, 77.0), *points) if points else ():
        steps.add(msgspec.structs.replace(each, step=len(steps.points)), None)
    return steps.seconds, steps.bare_seconds


def test_no_speed_is_known_before_a_step_has_ended() -> None:
    assert speed() == (None, None)


def test_if_every_step_was_observed_the_speed_without_sonde_is_unknown() -> None:
    assert speed(*(point(n, 2.0 + n) for n in range(3))) == (3.0, None)


def test_steps_that_were_not_observed_tell_the_speed_without_sonde() -> None:
    assert speed(point(0, 1.1, 1.0), point(1, 2.0), point(2, 2.2)) == (2.1, 1.0)


def test_the_speed_with_sonde_is_that_of_steps_like_the_last_one() -> None:
    assert speed(point(0, 2.0), point(1, 1.1, 1.0)) == (1.1, 1.0)


def test_each_of_several_optimizers_counts_as_often_as_it_steps() -> None:
    # Two quick steps of the one, with a slow one among them that is no rule, to one of the other.
    quick = [point(n, 1.0, 0.5, optimizer="D") for n in range(5)]
    odd = point(5, 90.0, 80.0, optimizer="D")
    slow = [point(n, 10.0, 8.0, optimizer="G") for n in range(6, 9)]
    assert speed(*quick, odd, *slow) == (4.0, 3.0)


def test_the_first_step_counts_only_while_it_is_the_only_one() -> None:
    steps = StepHistory()
    steps.add(point(0, 9.0, 8.0), None)
    assert (steps.seconds, steps.bare_seconds) == (9.0, 8.0)
    steps.add(point(1, 2.0, 1.0), None)
    assert (steps.seconds, steps.bare_seconds) == (2.0, 1.0)


def test_the_speed_without_sonde_stays_known_while_a_watchpoint_observes_every_step() -> None:
    steps = StepHistory()
    steps.add(point(0, 9.0), None)
    for step in range(1, 4):
        steps.add(point(step, 1.1, 1.0), None)
    for step in range(4, 500):
        steps.add(point(step, 3.0), None)
    assert (steps.seconds, steps.bare_seconds) == (3.0, 1.0)
