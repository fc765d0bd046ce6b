"""Torch's counts of writes are those of a run without Sonde, so that its own checks work."""

from __future__ import annotations

import pytest
import torch
from tests.adapters.torch.watching import bare_and_watched, watch
from torch import nn


def foreach_training() -> list[int]:
    net = nn.Linear(3, 3)
    optimizer = torch.optim.Adam(net.parameters(), foreach=True)
    counts: list[int] = []
    for _ in range(4):
        net(torch.ones(2, 3)).square().sum().backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0, foreach=True)
        optimizer.step()
        state = optimizer.state[net.weight].values()
        counts += [net.weight._version, *(each._version for each in state)]
        optimizer.zero_grad()
    return counts


def test_foreach_ops_count_their_writes_as_without_sonde(matcher: str) -> None:
    bare, seen, watched = bare_and_watched(foreach_training)
    assert watched.reports == []
    assert seen == bare


def changed_before_backward() -> None:
    net = nn.Linear(3, 3)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, foreach=True)
    data = torch.ones(2, 3, requires_grad=True)
    for _ in range(3):
        late = net(data).square().sum()
        net(data).sum().backward()
        optimizer.step()
    late.backward()


def test_torch_reports_a_weight_that_a_foreach_op_changed_before_backward(matcher: str) -> None:
    with watch(), pytest.raises(RuntimeError, match="modified by an inplace operation"):
        changed_before_backward()
