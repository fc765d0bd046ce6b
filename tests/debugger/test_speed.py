"""What a rank reports of the time its steps take.

Only sums and lower bounds are asserted: they hold on any machine.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import msgspec
import pytest
import torch
from tests.capture.settings import document
from tests.debugger.driving import driven, make_net, train
from tests.debugger.hub import Hub, RankConnection, watchpoint

from sonde.capture.config import load_config
from sonde.wire.rank import MeasureSpeed, Notice

THINKING = 0.4


def no_user(_: RankConnection) -> None:
    """Looks on."""


@pytest.mark.document(
    258,
    says="Debugger will slow down the training performance",
    how="panel `Run` shows the speed with and without Sonde; steps without watched ops run at full "
    "speed",
)
@pytest.mark.usefixtures("matcher")
def test_steps_that_are_not_observed_tell_how_long_a_step_takes_without_sonde() -> None:
    _, rank = driven(lambda: train(make_net(), 5), no_user, hub=Hub(paused=False))
    points = [each.point for each in rank.steps]
    # The first steps are observed to learn their graph.
    assert [point.observed for point in points] == [True, True, False, False, False]
    assert [point.bare_seconds is None for point in points] == [True, True, False, False, False]
    for point in points[2:]:
        assert point.bare_seconds is not None
        assert 0 < point.bare_seconds <= point.seconds


@pytest.mark.usefixtures("matcher")
@pytest.mark.parametrize("condition", ["tensor_overflow", "gradient_exploding"])
def test_where_every_step_is_observed_nothing_is_made_up_for_a_step_without_sonde(
    condition: str,
) -> None:
    watched = Hub(paused=False, watchpoints=(watchpoint(1, condition),))
    _, rank = driven(lambda: train(make_net(), 5), no_user, hub=watched)
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


def measuring(rank: RankConnection) -> None:
    """Asks for a measurement before the first step."""
    rank.paused()
    rank.send(MeasureSpeed())
    rank.control("continue")


@pytest.mark.usefixtures("matcher")
@pytest.mark.parametrize("condition", ["tensor_overflow", "gradient_exploding"])
def test_on_request_exactly_one_step_runs_unobserved_and_is_named(condition: str) -> None:
    alone = train(make_net(), 6)
    hub = Hub(watchpoints=(watchpoint(1, condition),))
    losses, rank = driven(lambda: train(make_net(), 6), measuring, hub=hub)
    assert losses == alone
    points = [each.point for each in rank.steps]
    # Not one of the first, in which the graph is learned.
    assert [each.is_measurement for each in rank.steps] == [step == 2 for step in range(6)]
    assert [point.bare_seconds is None for point in points] == [step != 2 for step in range(6)]
    assert not points[2].observed
    assert [notice.text for notice in rank.all(Notice)] == [
        "step 2 ran unobserved to measure the speed"
    ]


@pytest.mark.usefixtures("matcher")
def test_a_nan_of_the_unobserved_step_is_found_in_the_next_one() -> None:
    def spoil(step: int, hidden: torch.Tensor) -> torch.Tensor:
        return hidden.log() if step == 2 else hidden

    hub = Hub(watchpoints=(watchpoint(1, "tensor_overflow"),))

    def person(rank: RankConnection) -> None:
        measuring(rank)
        assert rank.paused().reason == "hit"
        rank.control("terminate")

    _, rank = driven(lambda: train(make_net(spoil), 6), person, hub=hub)
    assert rank.hits[0].step == 3


@pytest.mark.usefixtures("matcher")
def test_stepping_by_ops_comes_before_a_measurement() -> None:
    def person(rank: RankConnection) -> None:
        rank.paused()
        rank.control("step", steps=3)
        rank.paused()
        rank.send(MeasureSpeed())
        rank.control("next")
        assert rank.paused().reason == "op"
        rank.control("continue")

    hub = Hub(watchpoints=(watchpoint(1, "tensor_overflow"),))
    _, rank = driven(lambda: train(make_net(), 6), person, hub=hub)
    assert [each.point.step for each in rank.steps if each.is_measurement] == [4]


@pytest.mark.usefixtures("matcher")
def test_no_step_is_compared_with_one_before_the_unobserved_step() -> None:
    changed = watchpoint(1, "expression", expression="abs_max != prev.abs_max")
    changed = msgspec.structs.replace(changed, break_after=0)
    _, rank = driven(lambda: train(make_net(), 6), measuring, hub=Hub(watchpoints=(changed,)))
    assert {2, 3}.isdisjoint(hit.step for hit in rank.hits if hit.verdict == "hit")
    assert {4, 5} <= {hit.step for hit in rank.hits if hit.verdict == "hit"}


@pytest.mark.usefixtures("matcher")
def test_a_step_that_a_dump_needs_is_not_left_out(tmp_path: Path) -> None:
    (tmp_path / "dump.json").write_text(json.dumps(document(tmp_path)))
    config = load_config(tmp_path / "dump.json", {})
    hub = Hub(watchpoints=(watchpoint(1, "tensor_overflow"),))
    _, rank = driven(lambda: train(make_net(), 4), measuring, hub=hub, config=config)
    assert all(each.point.observed for each in rank.steps)
    assert [(notice.slug, notice.text) for notice in rank.all(Notice)] == [
        ("speed-not-measured", "step 2 was observed for a dump: the speed was not measured")
    ]
