"""Steps whose gradients were cleared trigger; trainings that clear on purpose do not."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from sonde.monitor.lost_gradients import PassCounts
from sonde.monitor.triggers import Trigger, trigger_text


def judged(steps: Sequence[tuple[int, int]]) -> list[Trigger]:
    counts = PassCounts()
    found = [counts.judge(step, *each) for step, each in enumerate(steps)]
    return [each for each in found if each is not None]


def test_a_step_that_loses_a_micro_batch_triggers_once() -> None:
    (found,) = judged([*[(4, 0)] * 20, (4, 1), (4, 1), (4, 0)])
    assert (found.step, found.value, found.median) == (20, 3, 4)
    assert trigger_text(found) == (
        "the update uses 3 accumulated gradients, usually 4: the program cleared gradients between "
        "backward passes"
    )


@pytest.mark.parametrize(
    "steps",
    [
        [(4, 1)] * 200,  # A program that always clears: a network that another loss reaches.
        [*[(4, 0)] * 50, (2, 0), *[(4, 0)] * 50, (1, 0)],  # The end of an epoch.
        [*[(1, 0)] * 100, (2, 1), *[(1, 0)] * 99, (2, 1)],  # One more pass, for a measurement.
        [*[(4, 0)] * 9, (4, 3)],  # Too early to know.
    ],
)
def test_healthy_trainings_trigger_nothing(steps: list[tuple[int, int]]) -> None:
    assert judged(steps) == []
