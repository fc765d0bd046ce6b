"""The debugger finds the ops of modules that the program builds anew in every step."""

from __future__ import annotations

import torch
from tests.debugger.driving import driven
from tests.debugger.hub import RankConnection, watchpoint
from torch import nn

LOSS = "Default/loss-CrossEntropyLoss/nll_loss_forward-op0"


def train(steps: int) -> list[float]:
    torch.manual_seed(0)
    net = nn.Linear(8, 4)
    data, target = torch.randn(16, 8), torch.arange(16) % 4
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.CrossEntropyLoss()(net(data), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_the_training_stops_at_the_op_of_a_built_module_in_each_next_step() -> None:
    stops = []

    def person(rank: RankConnection) -> None:
        rank.paused()
        for _ in range(3):
            rank.control("to", op=LOSS)
            status = rank.paused()
            stops.append((status.step, status.op))
            rank.control("next")
            rank.paused()
        rank.control("continue")

    losses, _ = driven(lambda: train(6), person)
    assert stops == [(0, LOSS), (1, LOSS), (2, LOSS)]
    assert losses == train(6)


def test_a_watchpoint_compares_the_op_of_a_built_module_with_the_step_before() -> None:
    def person(rank: RankConnection) -> None:
        rank.paused()
        rank.watch(watchpoint(1, "expression", LOSS, expression="max < prev.max"))
        rank.control("continue")
        assert (rank.paused().step, rank.hits[-1].op) == (1, LOSS)
        rank.watch()
        rank.control("continue")

    driven(lambda: train(4), person)
