"""The health of a live rank: signals and layers from what the rank has sent."""

from __future__ import annotations

import numpy as np
import pytest

from sonde.core.errors import UsageError
from sonde.server.health.source import health_view, layer_cells, layer_tensors
from sonde.server.live.rank import LiveRank
from sonde.testing.sample_values import sample_metadata
from sonde.wire.queries import CellQuery, HealthQuery, LayersQuery
from sonde.wire.rank import ParameterNames, ParameterNorms, StepDone
from sonde.wire.shapes import LossPoint

NAMES = ("a.weight", "a.bias", "b.weight")
GRADIENTS = ((3.0, 4.0, 0.0), (6.0, 8.0, np.nan))
WEIGHTS = (3.0, 4.0, 12.0)
RATIOS = (0.1, 0.1, 0.2)


@pytest.fixture
def rank() -> LiveRank:
    found = LiveRank(sample_metadata())
    found.history.set_names(ParameterNames(NAMES))
    for step, gradients in enumerate(GRADIENTS):
        found.add_step(StepDone(LossPoint(step, 1.0 / (step + 1), 0.5, None, False), None))
        data = [np.array(each, "<f4").tobytes() for each in (gradients, WEIGHTS, RATIOS)]
        found.history.add_norms(ParameterNorms(step, data[0], data[1], data[2], 0.01))
    return found


def test_signals_are_those_that_numpy_computes_from_the_norms(rank: LiveRank) -> None:
    view = health_view(rank.trends(()), HealthQuery())
    found = {curve.name: curve.values for curve in view.curves}
    assert (view.first, view.last) == (0, 1)
    assert found["loss"] == (1.0, 0.5)
    assert found["learning_rate"] == (0.01, 0.01)
    assert found["grad_norm"] == (5.0, 10.0)
    ratio = np.sqrt(0.3**2 + 0.4**2 + 2.4**2) / 13
    np.testing.assert_allclose(found["update_ratio"], [ratio, ratio], rtol=1e-6)
    assert [each.name for each in view.statistics] == ["grad_norm", "weight_norm", "update_ratio"]


def test_the_steps_of_two_optimizers_are_two_curves() -> None:
    rank = LiveRank(sample_metadata())
    for step, (loss, name) in enumerate(((1.5, "Adam of D"), (0.6, "Adam of G")) * 2):
        rank.add_step(StepDone(LossPoint(step, loss, 0.5, None, False, name), None))
    view = health_view(rank.trends(()), HealthQuery())
    losses = [each for each in view.curves if each.name == "loss"]
    assert [(each.optimizer, each.steps, each.values) for each in losses] == [
        ("Adam of D", (0, 2), (1.5, 1.5)),
        ("Adam of G", (1, 3), (0.6, 0.6)),
    ]


def test_the_map_has_the_largest_gradient_of_each_layer_and_marks_nan(rank: LiveRank) -> None:
    grid = rank.trends(()).grid("grad_norm")
    cells = grid.cells(grid.frame(0, 1, 0, 2, rows=2, columns=2))
    assert grid.layers == ("a", "b")
    np.testing.assert_array_equal(cells, [[4.0, 8.0], [0.0, np.nan]])


def test_a_cell_lists_its_gradients_the_greatest_first(rank: LiveRank) -> None:
    query = CellQuery(statistic="grad_norm", layer="a", first=0, last=1)
    found = layer_tensors(rank.trends(()), query).tensors
    assert [(each.op, each.step, each.value) for each in found] == [
        ("a.bias.grad", 1, 8.0),
        ("a.weight.grad", 1, 6.0),
    ]


def test_wrong_questions_are_refused_in_one_line(rank: LiveRank) -> None:
    trends = rank.trends(())
    with pytest.raises(UsageError, match="no zero_fraction of layers"):
        layer_cells(trends, LayersQuery(statistic="zero_fraction"), None)
    with pytest.raises(UsageError, match="rows must be from 1 to 4096"):
        layer_cells(trends, LayersQuery(statistic="grad_norm", rows=0), None)
    with pytest.raises(UsageError, match="no tensors of layer 'c'"):
        layer_tensors(trends, CellQuery(statistic="grad_norm", layer="c", first=0))


def test_a_rank_without_steps_says_why_there_is_no_map() -> None:
    view = health_view(LiveRank(sample_metadata()).trends(()), HealthQuery())
    assert view.curves == ()
    assert "no step has ended" in view.missing
