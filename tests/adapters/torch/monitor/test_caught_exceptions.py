"""An exception that the program handles itself: its step is kept, and the program goes on."""

from __future__ import annotations

import contextlib
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.adapters.torch.monitor.test_actions import same
from torch import nn

import sonde


class Raises(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: torch.Tensor) -> torch.Tensor:
        context.save_for_backward(x)
        return x.clone()

    @staticmethod
    def backward(context: Any, *gradients: torch.Tensor) -> torch.Tensor:
        (x,) = context.saved_tensors
        if x.max() > 100:
            raise ValueError("too large in backward")
        return gradients[0]


class Net(nn.Module):
    def __init__(self, where: str) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.where = where

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.where == "forward" and x.max() > 100:
            raise ValueError("too large in forward")
        return self.layer(Raises.apply(x * self.layer.weight.mean()) if "b" in self.where else x)


def train(where: str, handled: type[Exception] = ValueError) -> list[torch.Tensor]:
    """Step 2 raises, and is left out."""
    torch.manual_seed(0)
    net = Net(where)
    nn.init.constant_(net.layer.weight, 1.0)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    for number in range(5):
        x = torch.rand(8, 3)
        if number == 2:
            x[5] = 1000.0
        with contextlib.suppress(handled):
            net(x).sum().backward()
            optimizer.step()
        optimizer.zero_grad()
    return [net.layer.weight.detach(), net.layer.bias.detach(), torch.get_rng_state()]


@pytest.mark.parametrize("where", ["forward", "backward"])
def test_the_step_of_a_handled_exception_is_kept(
    where: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    bare = train(where)
    with sonde.guard(tmp_path, on_trigger="stop"):
        guarded = train(where)
    assert same(bare, guarded)
    first, end, _ = capfd.readouterr().err.splitlines()
    assert first.startswith(f"sonde: step 2: the program raised ValueError: too large in {where}")
    assert "from row 5 of 8 rows of the batch" in first
    assert first.endswith(f"; kept in {tmp_path / 'step_2.rank_0'}")
    assert "guarded 4 steps, 1 of them triggered, step 2" in end
    assert sonde.signals(tmp_path)["step"].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("where", ["forward", "backward"])
def test_an_exception_that_leaves_the_program_is_kept_once(
    where: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def program() -> None:
        try:
            train(where, handled=KeyError)
        except ValueError as error:
            raise RuntimeError("outer") from error

    with pytest.raises(RuntimeError, match="outer"), sonde.guard(tmp_path):
        program()
    said = capfd.readouterr().err
    assert said.count("kept in") == 2  # The line of the step, and the end line.
    assert [each.name for each in tmp_path.glob("step_*")] == ["step_2.rank_0"]


def test_the_search_for_rows_ends_when_its_time_is_over(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sonde.adapters.torch.monitor.explaining._MOST_SECONDS", 0.0)
    with sonde.guard(tmp_path):
        train("forward")
    first = capfd.readouterr().err.splitlines()[0]
    assert ", from rows that are not known (the search ended after 1 execution)" in first
    assert first.endswith(f"; kept in {tmp_path / 'step_2.rank_0'}")


class Fails(torch.optim.SGD):
    """Raises in its third step."""

    steps = 0

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        self.steps += 1
        if self.steps == 3:
            raise ValueError("the update failed")
        super().step()


def test_the_step_after_an_optimizer_that_raised_is_measured_and_kept(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    torch.manual_seed(0)
    net = nn.Linear(3, 2)
    optimizer = Fails(net.parameters(), lr=1e-3)
    with sonde.guard(tmp_path):
        for number in range(5):
            for part in range(2):
                scale = math.nan if (number, part) == (3, 1) else 1.0
                net(torch.rand(4, 3) * scale).sum().backward()
            with contextlib.suppress(ValueError):
                optimizer.step()
            optimizer.zero_grad()
    first = capfd.readouterr().err.splitlines()[0]
    assert first.startswith("sonde: step 2: the loss is nan; it was in the input 'input'")
    assert "; in micro-batch 1 of 2; kept in " in first
    found = sonde.signals(tmp_path)
    assert found["micro_batches"].tolist() == [2, 2, 2, 2]
