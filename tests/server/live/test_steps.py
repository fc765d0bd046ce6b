"""Which graph each step ran; what the server keeps of steps is bounded."""

from __future__ import annotations

import pytest

from sonde.server.live import steps as live_steps
from sonde.server.live.steps import StepHistory
from sonde.wire.shapes import LossPoint


def point(step: int) -> LossPoint:
    return LossPoint(step, 1.0, 0.1, 0.1, True)


def test_the_graph_of_a_step_is_known_unless_the_step_was_not_reported() -> None:
    steps = StepHistory()
    for step, graph in ((0, 0), (1, 0), (2, 1), (5, 1), (6, 0)):
        steps.add(point(step), graph)
    assert [steps.graph_of(step) for step in range(7)] == [0, 0, 1, None, None, 1, 0]


@pytest.mark.parametrize("stride", [1, 2])
def test_steps_with_gaps_and_graphs_that_take_turns_do_not_fill_the_memory(
    stride: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_steps, "MOST_POINTS", 100)
    steps = StepHistory()
    for step in range(0, 2000, stride):
        steps.add(point(step), step // stride % 2)
    assert len(steps._graph_changes) <= 104
    assert len(steps.points) <= 100
    assert [steps.graph_of(step * stride) for step in (0, 1, 1990 // stride)] == [0, 1, None]
