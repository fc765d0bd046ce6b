"""The losses a server keeps of a rank."""

from __future__ import annotations

import pytest

from sonde.server.live import steps as live_steps
from sonde.server.live.rank import LiveRank
from sonde.testing.sample_values import sample_metadata
from sonde.wire.rank import GraphPart, StepDone
from sonde.wire.shapes import LossPoint


@pytest.fixture
def rank(monkeypatch: pytest.MonkeyPatch) -> LiveRank:
    monkeypatch.setattr(live_steps, "MOST_POINTS", 8)
    return LiveRank(sample_metadata())


def enter(rank: LiveRank, *optimizers: str) -> list[tuple[int, str]]:
    for step, optimizer in enumerate(optimizers):
        rank.add_step(StepDone(LossPoint(step, 1.0, 0.1, 0.1, False, optimizer), None))
    return [(point.step, point.optimizer) for point in rank.steps.points]


def test_of_very_many_steps_every_second_is_dropped(rank: LiveRank) -> None:
    assert enter(rank, *["Adam"] * 9) == [(step, "Adam") for step in (0, 2, 4, 6, 8)]


def test_optimizers_that_take_turns_both_stay(rank: LiveRank) -> None:
    assert enter(rank, *"DG" * 4, "D") == [(0, "D"), (1, "G"), (4, "D"), (5, "G"), (8, "D")]


def test_however_many_optimizers_there_are_no_more_is_kept(rank: LiveRank) -> None:
    kept = enter(rank, *map(str, range(1000)))
    assert len(kept) <= 8
    assert kept[-1] == (999, "999")


def test_a_name_of_any_length_is_kept_short(rank: LiveRank) -> None:
    assert enter(rank, "x" * 100_000) == [(0, "x" * 200)]


def test_a_graph_is_named_by_the_optimizer_that_was_seen_to_run_it() -> None:
    rank = LiveRank(sample_metadata())
    for graph in range(2):
        rank.graphs.add(GraphPart(graph, "Net", 0, (), 0), 0)
    rank.add_step(StepDone(LossPoint(0, 1.0, 0.1, 0.1, True, "SGD"), 0))
    rank.add_step(StepDone(LossPoint(1, 1.0, 0.1, 0.1, True, "Adam"), 1))
    rank.add_step(StepDone(LossPoint(2, 1.0, 0.1, 0.1, False, "SGD"), 1))  # What ran is not known.
    rank.add_step(StepDone(LossPoint(3, 1.0, 0.1, 0.1, True, "SGD"), 7))
    assert [graph.optimizer for graph in rank.view(0).graphs] == ["SGD", "Adam"]
