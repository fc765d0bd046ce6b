"""How fast a training is, as its recent steps tell."""

from __future__ import annotations

from sonde.server.live_rank import LiveRank
from sonde.server.speed import Speed, speed_of
from sonde.testing.fake_rank import sample_metadata
from sonde.wire.shapes import LossPoint


def point(
    step: int, seconds: float, bare: float, *, observed: bool, optimizer: str = ""
) -> LossPoint:
    return LossPoint(step, None, seconds, bare, observed, optimizer)


def test_nothing_is_known_before_a_step_is_over() -> None:
    assert speed_of([]) == Speed(None, None, False)


def test_where_every_step_was_observed_the_speed_without_sonde_is_an_estimate() -> None:
    points = [point(n, 2.0 + n, 1.0 + n, observed=True) for n in range(3)]
    assert speed_of(points) == Speed(3.0, 2.0, True)


def test_steps_that_were_not_observed_tell_the_speed_without_sonde() -> None:
    points = [
        point(0, 1.1, 1.0, observed=False),
        point(1, 2.0, 1.5, observed=True),
        point(2, 2.2, 1.5, observed=True),
    ]
    assert speed_of(points) == Speed(2.1, 1.0, False)


def test_the_speed_with_sonde_is_that_of_steps_like_the_last_one() -> None:
    points = [point(0, 2.0, 1.5, observed=True), point(1, 1.1, 1.0, observed=False)]
    assert speed_of(points) == Speed(1.1, 1.0, False)


def test_of_several_optimizers_each_counts_as_often_as_it_steps() -> None:
    # Two quick steps of the one, with a slow one among them that is no rule, to one of the other.
    quick = [point(n, 1.0, 0.5, observed=False, optimizer="D") for n in range(5)]
    odd = point(5, 90.0, 80.0, observed=False, optimizer="D")
    slow = [point(n, 10.0, 8.0, observed=False, optimizer="G") for n in range(6, 9)]
    assert speed_of([*quick, odd, *slow]) == Speed(4.0, 3.0, False)


def test_the_first_step_counts_only_as_long_as_it_is_the_only_one() -> None:
    rank = LiveRank(sample_metadata())
    rank.add_point(point(0, 9.0, 8.0, observed=True), None)
    assert (rank.view(0).seconds, rank.view(0).bare_seconds) == (9.0, 8.0)
    rank.add_point(point(1, 2.0, 1.0, observed=True), None)
    assert (rank.view(0).seconds, rank.view(0).bare_seconds) == (2.0, 1.0)
    assert rank.view(0).is_bare_estimated
