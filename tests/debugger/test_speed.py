"""The step times that a rank reports.

Only sums and lower bounds are asserted: they hold on any machine.
"""

from __future__ import annotations

import time

import pytest
from tests.debugger.driving import driven, make_net, train
from tests.debugger.hub import Hub, RankConnection, watchpoint

THINKING = 0.4


def no_commands(_: RankConnection) -> None:
    """Looks on."""


@pytest.mark.usefixtures("matcher")
def test_unobserved_steps_measure_the_time_without_sonde() -> None:
    _, rank = driven(lambda: train(make_net(), 5), no_commands, hub=Hub(paused=False))
    points = [each.point for each in rank.steps]
    # The first steps are observed to learn their graph.
    assert [point.observed for point in points] == [True, True, False, False, False]
    assert [point.bare_seconds is None for point in points] == [True, True, False, False, False]
    for point in points[2:]:
        assert point.bare_seconds is not None
        assert 0 < point.bare_seconds <= point.seconds


@pytest.mark.usefixtures("matcher")
@pytest.mark.parametrize("condition", ["tensor_overflow", "gradient_exploding"])
def test_if_every_step_is_observed_no_speed_without_sonde_is_reported(
    condition: str,
) -> None:
    watched = Hub(paused=False, watchpoints=(watchpoint(1, condition),))
    _, rank = driven(lambda: train(make_net(), 5), no_commands, hub=watched)
    assert [each.point.bare_seconds for each in rank.steps] == [None] * 5
    assert all(each.point.seconds > 0 for each in rank.steps)


@pytest.mark.usefixtures("matcher")
def test_a_pause_in_an_op_is_no_part_of_a_step() -> None:
    def person(rank: RankConnection) -> None:
        rank.paused()
        rank.control("step", steps=2)
        rank.paused()
        rank.control("next")
        assert rank.paused().reason == "op"
        time.sleep(THINKING)
        rank.control("continue")

    began = time.perf_counter()
    _, rank = driven(lambda: train(make_net(), 4), person)
    taken = time.perf_counter() - began
    (point,) = [each.point for each in rank.steps if each.point.step == 2]
    assert point.observed
    assert 0 < point.seconds <= taken - THINKING
