"""What was opened, wherever the training stood then, can be compared with the step before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.debugger.driving import TANH, driven, make_net, train
from tests.debugger.hub import RankConnection, watchpoint

from sonde.wire.questions import AskCompare, AskSummary, Compared, Summary
from sonde.wire.shapes import TensorName

WEIGHT = "fc2.weight"
SCOPE = "Default/network-Net/fc2-Linear/"


def recording(net: torch.nn.Module, values: list[Any]) -> torch.nn.Module:
    """``net``, which puts the weight of each step into ``values``."""
    weight = net.get_parameter(WEIGHT)
    net.register_forward_pre_hook(lambda *_: values.append(weight.detach().numpy().copy()))
    return net


def with_step_before(rank: RankConnection, op: str, step: int) -> Compared:
    found: Compared = rank.answer(op, AskCompare(TensorName(op, step=step)), Compared)
    return found


def numbers(table: Any) -> np.ndarray:
    return np.array(table.values, np.float32).reshape(table.rows, table.columns)


@pytest.mark.document(
    238,
    says="`Compare with Previous Step` of a parameter: of a node that was run to with `Next Node` "
    "or `Continue to`, or that is watched",
    how="every parameter, gradient and op from the moment on at which it was opened or run to, "
    "wherever the training stood then",
)
@pytest.mark.parametrize("way", ["to", "next", "hit"])
def test_a_weight_opened_in_the_middle_of_a_step_is_kept_at_once(way: str) -> None:
    values: list[Any] = []

    def person(rank: RankConnection) -> None:
        rank.paused()
        rank.control("step", steps=2)
        rank.paused()
        if way == "hit":
            rank.watch(watchpoint(1, "expression", TANH, expression="max > -2"))
            rank.control("continue")
        else:
            rank.control(way, op=SCOPE if way == "to" else "")
        assert (rank.paused().step, rank.paused().op is not None) == (2, True)
        rank.answer(WEIGHT, AskSummary(), Summary)
        rank.watch()
        rank.control("step")
        assert rank.paused().step == 3
        found = with_step_before(rank, WEIGHT, 2)
        assert np.array_equal(numbers(found.b), values[2])
        assert found.distances.max_abs_error != 0
        # In the middle of the next step the weight has not changed yet.
        rank.control("to", op=SCOPE)
        assert rank.paused().step == 3
        middle = with_step_before(rank, WEIGHT, 2)
        assert np.array_equal(numbers(middle.a), values[3])
        assert np.array_equal(numbers(middle.b), values[2])
        rank.control("continue")

    net = recording(make_net(), values)
    debugged, _ = driven(lambda: train(net, 6), person)
    assert debugged == train(make_net(), 6)


def test_a_weight_that_the_step_has_changed_already_is_not_taken_for_its_old_value() -> None:
    values: list[Any] = []

    def person(rank: RankConnection) -> None:
        rank.paused()
        rank.control("step")
        rank.paused()
        rank.control("to", op="Default/optimizer-SGD/")
        status = rank.paused()
        while status.step == 1:
            last = status.op
            rank.control("next")
            status = rank.paused()
        assert last is not None  # The last op of a step.
        rank.control("to", op=last)
        assert rank.paused().step == 2
        rank.answer(WEIGHT, AskSummary(), Summary)
        rank.control("step")
        assert rank.paused().step == 3
        assert np.array_equal(numbers(with_step_before(rank, WEIGHT, 2).b), values[2])
        rank.control("step")
        rank.paused()
        assert np.array_equal(numbers(with_step_before(rank, WEIGHT, 3).b), values[3])
        rank.control("terminate")

    driven(lambda: train(recording(make_net(), values), 5), person)


def test_gradients_and_ops_that_were_looked_at_are_compared_too() -> None:
    gradient = f"{WEIGHT}.grad"

    def person(rank: RankConnection) -> None:
        rank.paused()
        rank.control("step")
        rank.paused()
        before: Summary = rank.answer(gradient, AskSummary(), Summary)
        for step in (1, 2):
            rank.control("to", op=TANH)
            assert rank.paused().step == step
        found = with_step_before(rank, TANH, 1)
        assert found.distances.max_abs_error != 0
        rank.control("step")
        rank.paused()
        later = with_step_before(rank, gradient, 1)
        assert later.a.tensor.step == 2
        assert later.distances.max_abs_error != 0
        assert before.tensor.step == 0
        rank.control("terminate")

    driven(lambda: train(make_net(), 5), person)
