"""Optimizers that follow a schedule by themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.train.nets import classifier, loader
from torch import nn

from sonde.train import (
    FixedLossScaleManager,
    Model,
    ModelCheckpoint,
    PiecewiseConstantLR,
    WarmUpLR,
    follow_schedule,
)
from sonde.train import nn as ms_nn
from sonde.train.one_step import LossScaling


def step(network: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    network(torch.ones(2, 4)).sum().backward()
    optimizer.step()


def rates(optimizer: torch.optim.Optimizer) -> list[float]:
    return [group["lr"] for group in optimizer.param_groups]


def test_the_weights_are_those_of_torch_s_own_scheduler() -> None:
    mine, theirs = classifier(), classifier()
    schedule = WarmUpLR(0.1, 3)
    own = ms_nn.Momentum(mine.parameters(), schedule, 0.9)
    other = torch.optim.SGD(theirs.parameters(), 0.5, momentum=0.9)
    scheduler = schedule.scheduler(other)
    for _ in range(5):
        step(mine, own)
        step(theirs, other)
        scheduler.step()
    for left, right in zip(mine.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(left, right)


def test_each_group_has_its_own_and_a_list_is_a_schedule() -> None:
    network = classifier()
    groups = [{"params": network[0].parameters()}, {"params": network[3].parameters(), "lr": 0.5}]
    optimizer = torch.optim.SGD(groups, lr=PiecewiseConstantLR([1, 2], [0.2, 0.1]))  # type: ignore[arg-type]
    follow_schedule(optimizer)
    assert rates(optimizer) == [0.2, 0.5]
    step(network, optimizer)
    assert rates(optimizer) == [0.1, 0.5]
    listed = follow_schedule(torch.optim.Adam(network.parameters()), [0.3, 0.2])
    step(network, listed)
    step(network, listed)
    assert rates(listed) == [0.2]


def test_groups_and_states_of_a_plain_optimizer_can_be_added() -> None:
    network = classifier()
    optimizer = torch.optim.SGD(network[0].parameters(), lr=WarmUpLR(0.1, 4))  # type: ignore[arg-type]
    follow_schedule(optimizer)
    optimizer.add_param_group({"params": network[3].parameters()})
    step(network, optimizer)
    assert rates(optimizer) == [0.025, 0.0]
    plain = torch.optim.SGD(network.parameters(), lr=0.3)
    single = ms_nn.SGD(network.parameters(), WarmUpLR(0.1, 4))
    single.load_state_dict(plain.state_dict())
    step(network, single)
    assert rates(single) == [0.025]


def test_a_second_schedule_is_refused() -> None:
    optimizer = ms_nn.SGD(classifier().parameters(), WarmUpLR(0.1, 3))
    with pytest.raises(ValueError, match="follows a schedule already"):
        follow_schedule(optimizer, WarmUpLR(0.1, 3))


def test_a_dropped_step_does_not_count() -> None:
    network = classifier()
    optimizer = ms_nn.SGD(network.parameters(), WarmUpLR(0.1, 4))
    scaling = LossScaling(optimizer, FixedLossScaleManager(1.0))
    assert scaling.step(network(torch.full((2, 4), torch.inf)).sum())
    assert rates(optimizer) == [0.0]
    optimizer.zero_grad()
    assert not scaling.step(network(torch.ones(2, 4)).sum())
    assert rates(optimizer) == [0.025]


def test_a_resumed_run_continues_the_schedule(tmp_path: Path) -> None:
    def model(way: str) -> tuple[nn.Module, Model]:
        network = classifier()
        schedule: Any = WarmUpLR(0.1, 7)
        if way == "optimizer":
            optimizer = torch.optim.SGD(network.parameters(), lr=schedule)
            return network, Model(network, nn.CrossEntropyLoss(), optimizer)
        optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
        return network, Model(network, nn.CrossEntropyLoss(), optimizer, scheduler=schedule)

    for way in ("optimizer", "scheduler"):
        whole, uninterrupted = model(way)
        uninterrupted.train(2, loader())
        _, first = model(way)
        first.train(1, loader(), ModelCheckpoint("net", tmp_path / way))
        resumed, second = model(way)
        second.train(2, loader(), resume=tmp_path / way)
        for left, right in zip(whole.parameters(), resumed.parameters(), strict=True):
            assert torch.equal(left, right)


def test_a_schedule_for_no_optimizer_is_refused() -> None:
    with pytest.raises(ValueError, match="needs an optimizer"):
        Model(classifier(), nn.CrossEntropyLoss(), scheduler=WarmUpLR(0.1, 3))
