"""What is told of the speed of a training that is debugged. Sleeping is work here."""

from __future__ import annotations

import time
from statistics import median

import pytest
import torch
from tests.debugger.driving import driven, make_net, train
from tests.debugger.hub import Hub, RankConnection, watchpoint

from sonde.adapters.torch import visits
from sonde.core.sink import OpCall
from sonde.debugger.watching import Watching

TRAINING = 0.05
DEBUGGING = 0.2
THINKING = 0.4


def work(_: int, hidden: torch.Tensor) -> torch.Tensor:
    time.sleep(TRAINING)
    return hidden


def nobody(_: RankConnection) -> None:
    """Looks on."""


@pytest.fixture
def slow_judge(monkeypatch: pytest.MonkeyPatch) -> None:
    judge = Watching.op

    def slow(self: Watching, call: OpCall) -> str | None:
        if call.node.name.endswith("tanh-op0"):
            time.sleep(DEBUGGING)
        return judge(self, call)

    monkeypatch.setattr(Watching, "op", slow)


@pytest.mark.usefixtures("slow_judge", "matcher")
def test_what_judging_ops_takes_is_no_part_of_a_step_without_sonde() -> None:
    watched = Hub(paused=False, watchpoints=(watchpoint(1, "expression", expression="max > 1e30"),))
    _, rank = driven(lambda: train(make_net(work), 5), nobody, hub=watched)
    points = [each.point for each in rank.steps]
    assert all(point.observed for point in points)
    assert all(point.seconds >= TRAINING + DEBUGGING for point in points)
    assert all(point.bare_seconds >= TRAINING for point in points)
    assert median(point.bare_seconds for point in points) < TRAINING + DEBUGGING


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

    _, rank = driven(lambda: train(make_net(), 4), person)
    (point,) = [each.point for each in rank.steps if each.point.step == 2]
    assert point.observed
    assert 0 < point.bare_seconds < point.seconds < THINKING


@pytest.mark.usefixtures("matcher")
def test_what_torch_does_to_show_an_op_is_measured() -> None:
    """Microseconds, on any machine that trains."""
    assert 1e-7 < visits.seconds_of_visit() < 1e-3


def test_it_is_not_measured_where_a_profiler_would_record_it() -> None:
    with torch.profiler.profile() as profile:
        _, rank = driven(
            lambda: train(make_net(), 5),
            lambda rank: None,
            hub=Hub(paused=False, watchpoints=(watchpoint(1, "tensor_overflow"),)),
        )
    assert [each.point.observed for each in rank.steps] == [True] * 5
    assert [event for event in profile.events() if "addmm" in event.name]
    assert not [event for event in profile.events() if "layer_norm" in event.name]
