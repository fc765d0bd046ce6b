"""Modules that lack what others have do not end observation."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.adapters.torch.fitting import batch, fit, mlp
from tests.adapters.torch.modes import MODES, bare_and_observed
from tests.adapters.torch.watching import same
from torch import nn


def scripted() -> object:
    net = torch.jit.script(mlp())
    return fit(net, torch.optim.SGD(net.parameters(), lr=0.1), batch)


def lazy() -> object:
    net = nn.Sequential(nn.LazyLinear(4), nn.LazyBatchNorm1d(), nn.LazyLinear(2))
    net(torch.ones(3, 5))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(3):
        net(torch.randn(3, 5)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return [each.detach() for each in net.parameters()]


@pytest.mark.parametrize(
    ("mode", "program"),
    [*((mode, scripted) for mode in MODES), *((mode, lazy) for mode in MODES)],
)
def test_a_scripted_and_a_lazy_network_are_observed(
    mode: str, program: object, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert callable(program)
    bare, seen = bare_and_observed(mode, tmp_path, program)
    assert same(bare, seen)
    assert "failed" not in capfd.readouterr().err
