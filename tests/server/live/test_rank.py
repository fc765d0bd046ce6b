"""What the server keeps of a rank is bounded, whatever the rank says."""

from __future__ import annotations

import pytest

from sonde.server.live import rank as live_rank
from sonde.server.live.rank import LiveRank
from sonde.wire.shapes import LossPoint, Metadata

NOBODY = Metadata("host", 1, 0, 1, "cpu", "torch", "", "", "", "", (), "", 0.0)


def point(step: int) -> LossPoint:
    return LossPoint(step, 1.0, 0.1, 0.1, True)


def test_the_graph_of_a_step_is_known_and_that_of_a_step_nobody_told_of_is_not() -> None:
    rank = LiveRank(NOBODY)
    for step, graph in ((0, 0), (1, 0), (2, 1), (5, 1), (6, 0)):
        rank.add_point(point(step), graph)
    assert [rank.graph_of(step) for step in range(8)] == [0, 0, 1, None, None, 1, 0, None]


@pytest.mark.parametrize("stride", [1, 2])
def test_steps_with_gaps_and_graphs_that_take_turns_do_not_fill_the_memory(
    stride: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_rank, "MOST_POINTS", 100)
    rank = LiveRank(NOBODY)
    for step in range(0, 2000, stride):
        rank.add_point(point(step), step // stride % 2)
    assert len(rank._graph_changes) <= 104
    assert len(rank.points) <= 100
    assert [rank.graph_of(step * stride) for step in (0, 1, 1990 // stride)] == [0, 1, None]
