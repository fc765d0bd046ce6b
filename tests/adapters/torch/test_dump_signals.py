"""A dump of the statistics of all steps has the signals of each step, as a guard measures them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from sonde.adapters.torch.attach import attach
from sonde.adapters.torch.debugging.signals.meter import Meter
from sonde.capture.options import config_from_options
from sonde.dump.reader import Dump
from sonde.server.health.stored import StoredTrends
from sonde.trends.database import TrendDatabase


@dataclass
class Truth:
    """What numpy says of each step: loss, norm of the gradients, ratio of the update, rate."""

    rows: list[tuple[float, float, float, float]] = field(default_factory=list)

    def step(self, optimizer: torch.optim.Optimizer, loss: float, closure: Any = None) -> None:
        weights = [each for group in optimizer.param_groups for each in group["params"]]
        before = _flat(weights)
        rate = optimizer.param_groups[0]["lr"]
        optimizer.step() if closure is None else optimizer.step(closure)
        gradient = _flat([each.grad for each in weights])
        change = np.linalg.norm(_flat(weights) - before) / np.linalg.norm(before)
        self.rows.append((loss, float(np.linalg.norm(gradient)), float(change), rate))


def _flat(tensors: Any) -> Any:
    return np.concatenate([each.detach().double().numpy().ravel() for each in tensors])


def network() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))


def two_micro_batches(truth: Truth) -> nn.Module:
    net = network()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    for _ in range(3):
        losses = [net(torch.randn(8, 4)).square().mean() for _ in range(2)]
        for each in losses:
            each.backward()
        truth.step(optimizer, sum(float(each.detach()) for each in losses))
        optimizer.zero_grad(set_to_none=False)  # They enter the next step as tensors.
        schedule.step()
    return net


def a_closure(truth: Truth) -> nn.Module:
    net = network()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(3):
        closure = Closure(net, optimizer, torch.randn(8, 4))
        truth.step(optimizer, 0.0, closure)
        truth.rows[-1] = (closure.loss, *truth.rows[-1][1:])
    return net


@dataclass
class Closure:
    """Computes the gradients when the optimizer steps."""

    net: nn.Module
    optimizer: torch.optim.Optimizer
    data: torch.Tensor
    loss: float = 0.0

    def __call__(self) -> float:
        self.optimizer.zero_grad()
        loss = self.net(self.data).square().mean()
        loss.backward()
        self.loss = float(loss.detach())
        return self.loss


def two_networks(truth: Truth) -> nn.Module:
    one, other = network(), nn.Linear(4, 1)
    optimizers = [torch.optim.SGD(each.parameters(), lr=0.1) for each in (one, other)]
    for _ in range(2):
        for net, optimizer in zip((one, other), optimizers, strict=True):
            optimizer.zero_grad()
            loss = net(torch.randn(8, 4)).square().mean()
            loss.backward()
            truth.step(optimizer, float(loss.detach()))
    return one


def dumped(path: Path, train: Callable[[Truth], nn.Module], steps: str = "all") -> Truth:
    truth = Truth()
    plain = train(Truth())
    config = config_from_options(path, {}, stats=True, parquet=True, steps=steps)
    with attach(config, starts_at_once=False):
        observed = train(truth)
    for one, other in zip(plain.parameters(), observed.parameters(), strict=True):
        assert torch.equal(one, other)
    return truth


@pytest.mark.parametrize("train", [two_micro_batches, a_closure, two_networks])
def test_the_signals_are_those_of_the_training(
    train: Callable[[Truth], nn.Module], tmp_path: Path
) -> None:
    truth = dumped(tmp_path, train)
    database = TrendDatabase(tmp_path)
    signals = database.signals()
    for name, expected in zip(
        ("loss", "grad_norm", "update_ratio", "learning_rate"),
        np.array(truth.rows).T,
        strict=True,
    ):
        np.testing.assert_allclose(signals[name].values, expected, rtol=1e-5)
    assert (signals["step_seconds"].values > 0).all()
    tensors = database.query("select count(*) from tensors").rows[0][0]
    assert tensors == sum(1 for _ in Dump(tmp_path).tensors())  # Signals are no tensors.
    assert not database.query("from tensors where op like '%/update'").rows


def test_the_map_has_the_update_ratio_of_each_layer(tmp_path: Path) -> None:
    truth = dumped(tmp_path, two_micro_batches)
    database = TrendDatabase(tmp_path)
    matrix = database.layer_matrix("update_ratio")
    assert [each.rpartition("/")[2] for each in matrix.layers] == [
        "0-Linear",
        "1-BatchNorm1d",
        "3-Linear",
    ]
    least, greatest = matrix.values.min(axis=0), matrix.values.max(axis=0)
    whole = [row[2] for row in truth.rows]
    assert (least <= whole).all()
    assert (whole <= greatest).all()
    # The weights of a linear layer, without the gradients that were left.
    norms = database.layer_matrix("weight_norm").values
    torch.manual_seed(3)
    first = nn.Linear(4, 8)
    assert norms[0, 0] == pytest.approx(np.linalg.norm(_flat(first.parameters())), rel=1e-6)
    trends = StoredTrends(tmp_path, lambda rank: (), lambda rank, op: True)
    assert {"learning_rate", "update_ratio"} <= trends.of_rank(0).signals().keys()


def test_steps_that_are_not_dumped_are_not_measured(tmp_path: Path) -> None:
    truth = dumped(tmp_path, two_networks, steps="all/2")
    signals = TrendDatabase(tmp_path).signals()
    assert signals["loss"].steps.tolist() == [0, 2]
    np.testing.assert_allclose(
        signals["loss"].values, [row[0] for row in truth.rows[::2]], rtol=1e-6
    )


def test_without_signals_the_dump_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no norm")

    monkeypatch.setattr(Meter, "measure", fail)
    dumped(tmp_path, two_networks)
    assert TrendDatabase(tmp_path).signals() == {}
    assert TrendDatabase(tmp_path).steps() == (0, 3)
    lines = [line for line in capsys.readouterr().err.splitlines() if "be measured" in line]
    assert len(lines) == 1
    assert "the dump goes on without them: RuntimeError: no norm" in lines[0]
