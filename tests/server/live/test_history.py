"""Statistics over steps, as ranks send them: bounded, thinned, and what a watchpoint would hit."""

from __future__ import annotations

import asyncio
import math

import numpy as np
import pytest

from sonde import kernels
from sonde.core.statistics import ROW_COLUMNS
from sonde.kernels.codes import dtype_code
from sonde.server.graph.index import GraphIndex
from sonde.server.live import history as module
from sonde.server.live.history import StatisticHistory, latest_outputs
from sonde.server.live.preview import previewed
from sonde.server.live.rank import LiveRank
from sonde.server.live.recorded_values import op_values
from sonde.testing.sample_values import sample_metadata
from sonde.wire.framing import FrameError
from sonde.wire.rank import OpStatistics, ParameterNames, ParameterNorms
from sonde.wire.shapes import ConditionSpec, Node, TensorType
from sonde.wire.watchpoints import WatchpointDraft

TYPE = TensorType("float32", (4,))


def rows(step: int, **values: list[float]) -> OpStatistics:
    """The message about the outputs of these ops."""
    table = np.empty((len(values), ROW_COLUMNS))
    for row, each in zip(table, values.values(), strict=True):
        array = np.array(each, np.float32)
        kernels.summarize_into(
            row.ctypes.data, array.ctypes.data, dtype_code("float32"), array.size
        )
    return OpStatistics(step, tuple(values), (0,) * len(values), table.tobytes())


def norms(step: int, *weights: float, update: float = 0.1) -> ParameterNorms:
    data = np.array(weights, np.float32)
    changes = np.where(np.isnan(data), np.nan, update).astype(np.float32)
    return ParameterNorms(step, (2 * data).tobytes(), data.tobytes(), changes.tobytes())


def test_an_output_has_its_statistics_of_every_recorded_step() -> None:
    history = StatisticHistory()
    history.add_rows(rows(0, a=[1, 2, 3, 4], b=[0, 0, 0, 0]))
    history.add_rows(rows(16, a=[1, 2, 3, math.nan]))
    points = history.points("a", 0, 4)
    assert [point.step for point in points] == [0, 16]
    assert [point.statistics.avg for point in points] == [2.5, "nan"]
    assert points[1].statistics.nan_count == 1
    found = history.latest("b", 0, None)
    assert found is not None
    assert (found[0], found[1].zero_count) == (0, 4)
    assert history.latest("a", 0, 1) is None
    assert history.points("a", 1, 4) == []


def test_each_op_has_the_statistics_of_the_last_step_that_recorded_it() -> None:
    history = StatisticHistory()
    history.add_rows(rows(0, a=[1, 2, 3, 4], b=[0, 0, 0, 5]))
    history.add_rows(rows(16, a=[1, 2, 3, math.nan], other=[9]))
    step, found = latest_outputs(history.of_ops(None), ["a", "b", "c"])
    assert step == 16
    assert {op: each[0].nan_count for op, each in found.items()} == {"a": 1, "b": 0}
    step, found = latest_outputs(history.of_ops(0), ["a", "b"])
    assert (step, found["a"][0].max, found["b"][0].max) == (0, 4.0, 5.0)
    assert latest_outputs(history.of_ops(7), ["a"]) == (None, {})


def test_the_ops_of_a_training_that_ended_keep_their_colours() -> None:
    rank = LiveRank(sample_metadata())
    rank.history.add_rows(rows(3, a=[-7, 2, 3, 4]))
    nodes = [Node("a", "relu", "", "forward", "op", 0, (), (TYPE,))]
    found = asyncio.run(op_values(rank, GraphIndex(0, "g", nodes), None, "max"))
    assert (found.step, found.by_op) == (3, {"a": 7.0})


def test_a_weight_and_its_gradient_have_norms_and_ratios() -> None:
    history = StatisticHistory()
    history.set_names(ParameterNames(("w", "v")))
    history.add_norms(norms(0, 3.0, math.nan))
    history.add_norms(norms(1, 4.0, math.inf))
    weight = history.points("w", 0, 10)
    assert [(each.statistics.l2norm, each.update_ratio) for each in weight] == [
        (3.0, pytest.approx(0.1)),
        (4.0, pytest.approx(0.1)),
    ]
    assert weight[0].statistics.count == 10
    assert [each.statistics.l2norm for each in history.points("w.grad", 0, 10)] == [6.0, 8.0]
    # A weight whose optimizer did not step has no point; one that is not finite has.
    assert [(each.step, each.statistics.l2norm) for each in history.points("v", 0, 1)] == [
        (1, "inf")
    ]
    assert history.is_measured("w.grad")
    assert not history.is_measured("a")


def test_many_steps_of_two_optimizers_that_take_turns_are_thinned_alike(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MOST_STEPS", 100)
    history = StatisticHistory()
    history.set_names(ParameterNames(("critic", "maker")))
    for step in range(1000):
        is_even = step % 2 == 0
        history.add_norms(norms(step, 1.0 if is_even else math.nan, math.nan if is_even else 1.0))
    for name in ("critic", "maker"):
        steps = [point.step for point in history.points(name, 0, 1)]
        assert 20 <= len(steps) <= 60
        assert steps[0] < 10
        assert steps[-1] > 900


def test_the_rows_of_many_ops_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ROW_BYTES", 10 * 8 * ROW_COLUMNS)
    history = StatisticHistory()
    for step in range(40):
        history.add_rows(rows(step, a=[step], b=[1.0]))
    assert [point.step for point in history.points("a", 0, 1)] == [35, 36, 37, 38, 39]


def test_numbers_that_cannot_be_read_are_refused() -> None:
    history = StatisticHistory()
    with pytest.raises(FrameError, match="cannot be read"):
        history.add_norms(ParameterNorms(0, b"123", b"", b""))
    with pytest.raises(FrameError, match="have 3 bytes"):
        history.add_rows(OpStatistics(0, ("a",), (0,), b"123"))
    # A row of another program's making is no statistic, and harms nothing.
    history.add_rows(OpStatistics(0, ("a",), (0,), np.full(ROW_COLUMNS, np.nan).tobytes()))
    assert history.points("a", 0, 1) == []


def test_a_preview_says_what_a_watchpoint_would_have_hit() -> None:
    history = StatisticHistory()
    history.add_rows(rows(3, fc=[1, 2, 3, 4], w=[0, 0, 0, 9], v=[0, 0, 0, 1]))
    nodes = [
        Node("fc", "addmm", "net", "forward", "op", 0, outputs=(TYPE,)),
        *(
            Node(name, "Parameter", "net", "forward", "parameter", 1, outputs=(TYPE,))
            for name in ("w", "v", "unseen")
        ),
    ]
    nodes[1:] = [
        Node(
            n.name, n.type, n.scope, n.phase, n.kind, 1, (), n.outputs, (), (), ("weight", "tensor")
        )
        for n in nodes[1:]
    ]

    def found(
        condition: str, ops: tuple[str, ...] = (), **parameters: float
    ) -> tuple[int, int, int]:
        draft = WatchpointDraft("", (ConditionSpec(condition, parameters),), ops)
        preview = previewed(draft, nodes, history.last_step())
        assert preview.step == 3
        return preview.hits, preview.judged, preview.undecided

    assert found("tensor_too_large", max_gt=3.5) == (2, 3, 0)
    assert found("weight_too_large", max_gt=3.5) == (1, 2, 0)
    assert found("weight_too_large", ("v",), max_gt=3.5) == (0, 1, 0)
    assert found("tensor_overflow") == (0, 3, 0)
    assert found("weight_not_changed") == (0, 0, 2)  # needs the values of two steps
    assert previewed(WatchpointDraft("", ()), nodes, None).step is None
