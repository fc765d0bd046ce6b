"""Statistics are recorded from the start: of weights in every step, of ops in observed ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.debugger.driving import TANH, driven, make_net, train
from tests.debugger.hub import RankConnection, watchpoint
from torch import nn

from sonde.core.statistics import L2NORM, MAX, MIN, ROW_COLUMNS
from sonde.wire.questions import AskCompare, Compared
from sonde.wire.rank import Kept, OpStatistics, ParameterNames, ParameterNorms, Record
from sonde.wire.shapes import TensorName


def run_freely(rank: RankConnection) -> None:
    rank.paused()
    rank.control("continue")


def norms_of(rank: RankConnection) -> dict[int, dict[str, tuple[float, float, float]]]:
    """Gradient norm, weight norm and update ratio by step and weight, as the rank sent them."""
    names: tuple[str, ...] = ()
    found: dict[int, dict[str, tuple[float, float, float]]] = {}
    for message in rank.seen:
        if isinstance(message, ParameterNames):
            names = message.names
        elif isinstance(message, ParameterNorms):
            data = (message.gradients, message.weights, message.updates)
            rows = [np.frombuffer(each, "<f4").tolist() for each in data]
            found[message.step] = dict(zip(names, zip(*rows, strict=True), strict=True))
    return found


def rows_of(rank: RankConnection) -> dict[int, dict[str, Any]]:
    """The rows of the first outputs by step and op."""
    found: dict[int, dict[str, Any]] = {}
    for message in rank.seen:
        if isinstance(message, OpStatistics):
            table = np.frombuffer(message.rows, "<f8").reshape(-1, ROW_COLUMNS)
            step = found.setdefault(message.step, {})
            for op, slot, row in zip(message.ops, message.slots, table, strict=True):
                if slot == 0:
                    step[op] = row
    return found


class Spy(nn.Module):
    """The network of the tests; notes the hidden values of each step."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden: list[torch.Tensor] = []

    def note(self, _: int, hidden: torch.Tensor) -> torch.Tensor:
        self.hidden.append(hidden.detach().clone())
        return hidden


def test_weights_are_measured_in_every_step_and_ops_in_the_first_ones() -> None:
    spy = Spy()
    net = make_net(spy.note)
    weights: list[torch.Tensor] = [net.fc1.weight.detach().clone()]

    def training() -> list[float]:
        torch.manual_seed(1)
        data, target = torch.randn(32, 8), torch.randn(32, 4)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        losses = []
        for _ in range(5):
            optimizer.zero_grad()
            loss = ((net(data) - target) ** 2).mean()
            loss.backward()
            gradients.append(float(net.fc1.weight.grad.norm()))
            optimizer.step()
            weights.append(net.fc1.weight.detach().clone())
            losses.append(loss.item())
        return losses

    gradients: list[float] = []
    _, rank = driven(training, run_freely)
    found = norms_of(rank)
    assert sorted(found) == [0, 1, 2, 3, 4]
    name = next(each for each in found[0] if each.endswith("fc1.weight"))
    for step in range(5):
        gradient, weight, update = found[step][name]
        assert gradient == pytest.approx(gradients[step], rel=1e-5)
        assert weight == pytest.approx(float(weights[step].norm()), rel=1e-5)
        change = (weights[step + 1] - weights[step]).norm() / weights[step].norm()
        assert update == pytest.approx(float(change), rel=1e-4)
    rows = rows_of(rank)
    assert sorted(rows) == [0, 1]  # Later steps are not observed: nothing is watched.
    for step in (0, 1):
        hidden = spy.hidden[step].double()
        row = rows[step][TANH]
        assert [row[MIN], row[MAX]] == [float(hidden.min()), float(hidden.max())]
        assert row[L2NORM] == pytest.approx(float(hidden.norm()))


def test_steps_that_the_user_runs_one_by_one_are_recorded() -> None:
    def person(rank: RankConnection) -> None:
        rank.paused()
        rank.control("step", steps=4)
        rank.paused()
        rank.control("continue")

    _, rank = driven(lambda: train(make_net(), 20), person)
    assert sorted(rows_of(rank)) == [0, 1, 2, 3]


def test_of_steps_that_run_freely_and_are_observed_some_are_recorded() -> None:
    def person(rank: RankConnection) -> None:
        rank.paused()
        rank.watch(watchpoint(1, "tensor_overflow"))
        rank.control("continue")

    _, rank = driven(lambda: train(make_net(), 40), person)
    assert sorted(rows_of(rank)) == [0, 1, 16, 32]


def test_an_op_is_recorded_in_every_step_from_the_request_on_until_it_is_withdrawn() -> None:
    def person(rank: RankConnection) -> None:
        rank.paused()
        rank.control("step", steps=2)
        rank.paused()
        rank.send(Record(TANH))
        rank.control("step", steps=20)
        rank.paused()
        rank.send(Record(TANH, is_on=False))
        rank.control("continue")

    losses, rank = driven(lambda: train(make_net(), 30), person)
    assert losses == train(make_net(), 30)  # bit for bit
    rows = rows_of(rank)
    assert [step for step in sorted(rows) if TANH in rows[step]] == list(range(22))
    assert list(rows[7]) == [TANH]
    kept = [each.recorded for each in rank.seen if isinstance(each, Kept)]
    assert (TANH,) in kept
    assert kept[-1] == ()


def test_at_a_pause_in_the_middle_the_ops_so_far_are_known() -> None:
    def person(rank: RankConnection) -> None:
        rank.paused()
        rank.control("to", op=TANH)
        rank.paused()
        rows = rows_of(rank)[0]
        assert TANH in rows
        assert not any("loss" in op or "Gradients" in op for op in rows)
        rank.control("continue")

    driven(lambda: train(make_net(), 3), person)


def test_a_weight_that_is_nan_has_an_infinite_norm_and_is_not_left_out() -> None:
    def spoil(step: int, hidden: torch.Tensor) -> torch.Tensor:
        return hidden * float("nan") if step == 1 else hidden

    _, rank = driven(lambda: train(make_net(spoil), 4), run_freely)
    found = norms_of(rank)
    name = next(each for each in found[0] if each.endswith("fc2.weight"))
    assert np.isfinite(found[1][name][1])
    assert found[1][name][0] == np.inf
    assert found[2][name][1] == np.inf


def test_a_weight_can_be_compared_with_the_step_before_without_a_request_in_advance() -> None:
    def person(rank: RankConnection) -> None:
        rank.paused()
        rank.control("step", steps=3)
        rank.paused()
        question = AskCompare(TensorName("fc1.weight", step=2))
        found = rank.answer("fc1.weight", question, Compared)
        assert (found.a.tensor.step, found.b.tensor.step) == (3, 2)
        assert float(found.distances.max_abs_error) > 0
        rank.control("continue")

    losses, _ = driven(lambda: train(make_net(), 6), person)
    assert losses == train(make_net(), 6)
