"""A training under control of the debugger: pauses, steps, hits, its end."""

from __future__ import annotations

import threading

import pytest
import torch
from tests.debugger.driving import TANH, driven, make_net, train
from tests.debugger.hub import Hub, RankConnection, watchpoint

from sonde.adapters.torch.attach import running_debugger
from sonde.debugger import Terminated
from sonde.wire.questions import AskTable, Table
from sonde.wire.rank import Answer, Ask, Goodbye, Notice, Status
from sonde.wire.shapes import TensorName


def bare(steps: int) -> tuple[list[float], list[torch.Tensor]]:
    net = make_net()
    return train(net, steps), list(net.parameters())


def test_it_pauses_before_the_first_step_until_it_gets_a_command() -> None:
    net = make_net()

    def person(rank: RankConnection) -> None:
        status = rank.paused()
        assert (status.reason, status.step, status.op) == ("start", 0, None)
        assert rank.steps == []
        rank.control("continue")

    losses, rank = driven(lambda: train(net, 3), person)
    expected, parameters = bare(3)
    assert losses == expected
    for one, other in zip(net.parameters(), parameters, strict=True):
        assert torch.equal(one, other)
    assert [step.point.loss for step in rank.steps] == expected
    assert [step.point.observed for step in rank.steps] == [True, True, False]
    assert rank.all(Goodbye) == [Goodbye(0, "")]


def test_every_way_of_going_on_leaves_the_result_as_it_is() -> None:
    net = make_net()

    def person(rank: RankConnection) -> None:
        rank.paused()
        rank.watch(
            watchpoint(1, "tensor_too_large", max_gt=0.5),
            watchpoint(2, "weight_change_too_large", abs_mean_update_ratio_gt=0.0),
            watchpoint(3, "gradient_too_large", abs_mean_gt=0.0),
        )
        rank.keep("tanh", steps=2)
        for command in ("next", "next", "step", "continue", "continue"):
            rank.control(command)
            rank.paused()
        rank.watch()
        rank.control("to", op=TANH)
        assert rank.paused().op == TANH
        rank.control("continue")

    losses, _ = driven(lambda: train(net, 6), person)
    expected, parameters = bare(6)
    assert losses == expected
    for one, other in zip(net.parameters(), parameters, strict=True):
        assert torch.equal(one, other)


@pytest.mark.document(
    224,
    says="`Next Node`: execute the next node, one node at a time",
    how="button `Next op`, key n, `sonde ctl next`",
)
def test_next_goes_from_op_to_op_in_the_order_they_run() -> None:
    ops: list[str | None] = []

    def person(rank: RankConnection) -> None:
        rank.paused()
        for _ in range(4):
            rank.control("next")
            ops.append(rank.paused().op)
        rank.control("continue")

    driven(lambda: train(make_net(), 2), person)
    assert ops == [
        "Default/network-Net/fc1-Linear/t-op0",
        "Default/network-Net/fc1-Linear/addmm-op0",
        TANH,
        "Default/network-Net/act-Tanh/detach-op0",
    ]


@pytest.mark.document(
    226,
    says="`Continue to` in the GPU environment: running to the selected node within one step",
    how="any op on any device, also of backward and optimizer, or a scope: `run to here`, key o, "
    "`sonde ctl to OP`",
)
def test_it_runs_to_ops_of_the_backward_pass_and_of_the_optimizer() -> None:
    backward = "Gradients/Default/network-Net/act-Tanh/tanh_backward-op0"
    stops: list[tuple[int, str | None]] = []

    def person(rank: RankConnection) -> None:
        rank.paused()
        for place in (backward, "Default/optimizer-SGD/", TANH):
            rank.control("to", op=place)
            status = rank.paused()
            stops.append((status.step, status.op))
        rank.control("continue")

    driven(lambda: train(make_net(), 3), person)
    assert [step for step, _ in stops] == [0, 0, 1]
    assert (stops[0][1], stops[2][1]) == (backward, TANH)
    assert str(stops[1][1]).startswith("Default/optimizer-SGD/")


@pytest.mark.document(
    247,
    says="`OK`: executing the training for several steps",
    how="`Run steps` with the number beside it, key s, `sonde ctl step N`",
)
def test_steps_are_counted_from_the_first() -> None:
    statuses: list[Status] = []

    def person(rank: RankConnection) -> None:
        rank.paused()
        for steps in (1, 3):
            rank.control("step", steps=steps)
            statuses.append(rank.paused())
        rank.control("continue")

    driven(lambda: train(make_net(), 5), person)
    assert [(each.step, each.reason, each.op) for each in statuses] == [
        (1, "step", None),
        (4, "step", None),
    ]


@pytest.mark.document(
    249,
    says="`PAUSE`: pausing the training",
    how="button `Pause`, space bar, `sonde ctl pause`",
)
def test_a_pause_stops_a_running_training() -> None:
    def person(rank: RankConnection) -> None:
        rank.paused()
        rank.control("continue")
        rank.wait(lambda: len([each for each in rank.seen if isinstance(each, Status)]) > 5)
        rank.control("pause")
        assert rank.paused().reason == "pause"
        rank.control("terminate")

    losses, rank = driven(lambda: train(make_net(), 1_000_000), person)
    assert losses is None
    assert rank.all(Goodbye)[0].exit_code == 130


@pytest.mark.parametrize("command", ["pause", "terminate"])
def test_a_step_whose_ops_are_not_observed_is_left_before_its_backward_pass(command: str) -> None:
    is_inside = threading.Event()

    def in_step_4(step: int, hidden: torch.Tensor) -> torch.Tensor:
        if step == 4:
            is_inside.set()
            debugging = running_debugger()
            assert debugging is not None
            assert not debugging.debugger._trainee.is_observed()
            assert debugging.debugger.session.wait()
        return hidden

    net = make_net(in_step_4)

    def person(rank: RankConnection) -> None:
        rank.paused()
        rank.control("continue")
        assert is_inside.wait(60)
        rank.control(command)
        if command == "pause":
            status = rank.paused()
            assert (status.reason, status.step, status.op) == ("pause", 4, None)
            found = rank.answer("fc1.weight", AskTable("[0, 0]"), Table, step=4)
            assert found.values == (net.fc1.weight[0, 0].item(),)
            rank.control("terminate")

    losses, rank = driven(lambda: train(net, 9), person)
    assert losses is None
    assert [step.point.step for step in rank.steps] == [0, 1, 2, 3]
    for one, other in zip(net.parameters(), bare(4)[1], strict=True):
        assert torch.equal(one, other)


def test_terminate_waits_for_an_optimizer_that_makes_the_gradients_itself() -> None:
    net = make_net()
    calls: list[int] = []
    is_inside = threading.Event()

    def training() -> None:
        data = torch.randn(32, 8)
        optimizer = torch.optim.LBFGS(net.parameters(), max_iter=4)

        def closure() -> torch.Tensor:
            calls[-1] += 1
            if calls == [4, 4, 4, 2]:
                is_inside.set()
                debugging = running_debugger()
                assert debugging is not None
                assert debugging.debugger.session.wait()
            optimizer.zero_grad()
            loss: torch.Tensor = (net(data) ** 2).mean()
            loss.backward()
            return loss

        while True:
            calls.append(0)
            optimizer.step(closure)

    def person(rank: RankConnection) -> None:
        rank.paused()
        rank.control("continue")
        assert is_inside.wait(60)
        rank.control("terminate")

    driven(training, person)
    assert calls == [4, 4, 4, 4]


def test_terminate_raises_in_the_training_and_lets_it_clean_up() -> None:
    cleaned: list[str] = []

    def training() -> None:
        try:
            train(make_net(), 100)
        except Exception:
            cleaned.append("swallowed")
        except Terminated:
            cleaned.append("terminated")
            raise
        finally:
            cleaned.append("finally")

    def person(rank: RankConnection) -> None:
        rank.paused()
        rank.control("step")
        rank.paused()
        rank.control("terminate")

    driven(training, person)
    assert cleaned == ["terminated", "finally"]


def test_of_several_ranks_the_one_that_paused_is_named(
    capfd: pytest.CaptureFixture[str],
) -> None:
    def person(rank: RankConnection) -> None:
        rank.paused()
        rank.control("continue")

    driven(lambda: train(make_net(), 2), person, hub=Hub(), world_size=2)
    assert "sonde: rank 0: paused in step 0: before the first step" in capfd.readouterr().err


def test_what_makes_no_sense_is_said_and_the_debugger_stays() -> None:
    def person(rank: RankConnection) -> None:
        rank.paused()
        rank.keep("name-regex(()")
        rank.send(Ask(99, TensorName("fc1.weight"), b"\xc1"))
        rank.wait(lambda: any(isinstance(each, Answer) for each in rank.seen))
        assert [notice.slug for notice in rank.all(Notice)] == ["op-pattern"]
        assert [answer.slug for answer in rank.all(Answer)] == ["debugger-garbage"]
        rank.control("step")
        assert rank.paused().step == 1
        rank.control("continue")

    losses, _ = driven(lambda: train(make_net(), 3), person)
    assert losses == train(make_net(), 3)


@pytest.mark.document(
    255,
    says="when too many `Watch Points` are set, the system may run out of memory",
    how="former values stay within SONDE_DEBUGGER_BUDGET; what does not fit is said and left "
    "undecided",
)
def test_former_values_that_do_not_fit_are_said_and_left_undecided() -> None:
    spec = watchpoint(1, "weight_not_changed")
    hub = Hub(paused=False, watchpoints=(spec,))
    _, rank = driven(lambda: train(make_net(), 3), lambda rank: None, hub=hub, budget_bytes=600)
    (notice,) = rank.all(Notice)
    assert notice.slug == "debugger-budget"
    assert "SONDE_DEBUGGER_BUDGET" in notice.text
    assert {hit.verdict for hit in rank.hits} == {"undecided"}
    assert "did not fit" in rank.hits[0].why


def test_a_wrong_watchpoint_is_said_and_the_others_hold() -> None:
    hub = Hub(
        paused=False,
        watchpoints=(
            watchpoint(1, "no_such_condition"),
            watchpoint(2, "tensor_too_large", max_gt=0),
        ),
    )

    def person(rank: RankConnection) -> None:
        assert rank.paused().reason == "hit"
        rank.control("terminate")

    _, rank = driven(lambda: train(make_net(), 3), person, hub=hub)
    assert {notice.slug for notice in rank.all(Notice)} == {"condition-unknown"}
