"""Optimizers that compute the gradients in a closure: judged before the weights are changed."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.adapters.torch.monitor.test_actions import same
from torch import nn

import sonde
from sonde.monitor import GuardStopped

BAD = 2


class Logarithm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x.log())


class Training:
    def __init__(self, kind: Any) -> None:
        torch.manual_seed(0)
        self.net = Logarithm()
        self.optimizer = kind(self.net.parameters(), lr=0.01)

    def run(self, steps: int = 4) -> list[torch.Tensor]:
        for number in range(steps):
            x = torch.rand(8, 3) + 0.5
            if number == BAD:
                x[5, 1] = -1.0

            def closure(x: torch.Tensor = x) -> torch.Tensor:
                self.optimizer.zero_grad()
                loss = self.net(x).square().mean()
                loss.backward()
                return loss

            self.optimizer.step(closure)
        return [*(each.detach() for each in self.net.parameters()), torch.get_rng_state()]


@pytest.mark.parametrize("kind", [torch.optim.LBFGS, torch.optim.SGD, torch.optim.Adam])
def test_the_step_of_a_closure_is_explained_and_kept(
    kind: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    bare = Training(kind).run()
    with sonde.guard(tmp_path):
        guarded = Training(kind).run()
    assert same(bare, guarded)
    first = capfd.readouterr().err.splitlines()[0]
    assert first.startswith(f"sonde: step {BAD}: the loss is nan; it began at ")
    assert "return self.layer(x.log())" in first
    assert "from row 5 of 8 rows of the batch" in first
    assert first.endswith(f"kept in {tmp_path / f'step_{BAD}.rank_0'}")
    signals = sonde.signals(tmp_path)
    assert signals["triggers"].astype(bool).tolist() == [False, False, True, True]
    assert signals["batch_hash"][0] != signals["batch_hash"][1]


@pytest.mark.parametrize("kind", [torch.optim.LBFGS, torch.optim.Adam])
@pytest.mark.parametrize("action", ["skip", "stop"])
def test_the_weights_are_those_before_the_step(kind: Any, action: Any, tmp_path: Path) -> None:
    training = Training(kind)
    try:
        with sonde.guard(tmp_path, on_trigger=action):
            training.run(BAD + 1)
    except GuardStopped:
        assert action == "stop"
    found = [each.detach() for each in training.net.parameters()]
    assert same(found, Training(kind).run(BAD)[:-1])
    if action == "skip":
        assert sonde.signals(tmp_path)["is_skipped"].tolist() == [0] * BAD + [1]


def test_a_later_call_of_the_closure_triggers_too(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    net = Logarithm()
    optimizer = torch.optim.LBFGS(net.parameters(), max_iter=4)
    x, calls = torch.rand(8, 3) + 0.5, []

    def closure() -> torch.Tensor:
        calls.append(1)
        optimizer.zero_grad()
        given = x.clone()
        given[3] = math.nan if len(calls) == 2 else 1.0
        loss = net(given).square().mean()
        loss.backward()
        return loss

    with sonde.guard(tmp_path):
        optimizer.step(closure)
    first = capfd.readouterr().err.splitlines()[0]
    assert first.startswith("sonde: step 0: the gradient of ")
    assert first.endswith(f"kept in {tmp_path / 'step_0.rank_0'}")


def test_an_optimizer_that_ignores_its_closure_is_judged_after_the_update(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    class Ignores(torch.optim.SGD):
        def step(self, closure: Any = None) -> None:  # type: ignore[override]
            super().step()

    net = Logarithm()
    optimizer = Ignores(net.parameters(), lr=0.1)
    with sonde.guard(tmp_path):
        net(-torch.ones(4, 3)).sum().backward()
        optimizer.step(lambda: None)
    assert "step 0: the loss is nan" in capfd.readouterr().err.splitlines()[0]


class BrokenAdam(torch.optim.Adam):
    """Writes NaN into a weight in its fourth step."""

    def step(self, closure: Any = None) -> Any:
        result = super().step(closure)
        first = self.param_groups[0]["params"][0]
        if self.state[first]["step"] == 4:
            with torch.no_grad():
                first[0, 0] = math.nan
        return result


def _trained_with_closures(optimizer: torch.optim.Optimizer, net: nn.Module) -> list[torch.Tensor]:
    for _ in range(6):
        x = torch.rand(8, 3)

        def closure(x: torch.Tensor = x) -> torch.Tensor:
            optimizer.zero_grad()
            loss: torch.Tensor = net(x).square().mean()
            loss.backward()
            return loss

        optimizer.step(closure)
    return [*(each.detach() for each in net.parameters()), torch.get_rng_state()]


def test_a_snapshot_goes_back_over_steps_with_a_closure(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def trained() -> list[torch.Tensor]:
        torch.manual_seed(0)
        net = nn.Linear(3, 2)
        return _trained_with_closures(BrokenAdam(net.parameters()), net)

    bare = trained()
    with sonde.guard(tmp_path, snapshot_every=10):
        guarded = trained()
    assert same(bare, guarded)
    first = capfd.readouterr().err.splitlines()[0]
    assert "the update of step 3 by BrokenAdam made weight non-finite" in first
    assert first.endswith(
        f"run again from 4 steps before, step 3 is kept in {tmp_path}/step_3.rank_0"
    )


def test_a_snapshot_does_not_go_back_over_a_closure_that_is_called_several_times(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def trained() -> list[torch.Tensor]:
        torch.manual_seed(0)
        net = nn.Linear(3, 2)
        optimizer = torch.optim.LBFGS(net.parameters(), max_iter=4, lr=0.1)
        _trained_with_closures(optimizer, net)
        with torch.no_grad():
            next(net.parameters())[0, 0] = math.nan
        return _trained_with_closures(optimizer, net)

    bare = trained()
    with sonde.guard(tmp_path, snapshot_every=2):
        guarded = trained()
    assert same(bare, guarded)
    first, *rest = capfd.readouterr().err.splitlines()
    assert first.startswith("sonde: step 6: 1 value is not finite in the weights")
    assert f"kept in {tmp_path}/step_6.rank_0" in first
    assert "going back is not possible: LBFGS calls its closure several times in a step" in first
    assert not any("guard failed" in line for line in rest)
    assert len(sonde.signals(tmp_path)) == 12


@pytest.mark.parametrize("bad_part", [0, 1])
def test_micro_batches_before_the_closure_are_kept_too(
    bad_part: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """As Lightning accumulates: the last backward pass runs in the closure."""
    torch.manual_seed(0)
    net = Logarithm()
    optimizer = torch.optim.Adam(net.parameters())

    def train() -> None:
        for number in range(4):
            parts = [torch.rand(8, 3) + 0.5 for _ in range(2)]
            if number == BAD:
                parts[bad_part][5, 1] = -1.0
            net(parts[0]).square().mean().backward()

            def closure(x: torch.Tensor = parts[1]) -> torch.Tensor:
                loss: torch.Tensor = net(x).square().mean()
                loss.backward()
                return loss

            optimizer.step(closure)
            optimizer.zero_grad()

    with sonde.guard(tmp_path):
        train()
    first = capfd.readouterr().err.splitlines()[0]
    assert "return self.layer(x.log()): " in first
    assert ", from row 5 of 8 rows of the batch" in first
    assert f"; in micro-batch {bad_part} of 2; kept in " in first
    assert sonde.signals(tmp_path)["micro_batches"].tolist() == [2] * 4
