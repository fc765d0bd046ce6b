"""A program whose steps never end is told what ends a step."""

from __future__ import annotations

import pytest
import torch
from tests.adapters.torch.watching import watch
from torch import nn

from sonde.adapters.torch.adapter import StepBy
from sonde.adapters.torch.attach import attach
from sonde.adapters.torch.steps import endless_step


def update_by_hand(times: int) -> None:
    weight = torch.ones(4, requires_grad=True)
    for _ in range(times):
        (weight * weight).sum().backward()
        with torch.no_grad():
            assert weight.grad is not None
            weight -= 0.1 * weight.grad
        weight.grad = None


@pytest.mark.parametrize("times", [2, 30])
@pytest.mark.parametrize(
    ("step_by", "reason"),
    [("optimizer", "no optimizer of torch has stepped"), ("manual", "sonde.step() was never")],
)
def test_a_loop_that_updates_its_weights_itself_is_told_once(
    step_by: StepBy, reason: str, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endless_step, "MANY_PASSES", 20)
    with watch(step_by=step_by) as seen:
        update_by_hand(times)
        told_before_the_end = list(seen.reports)
    (line,) = seen.reports
    assert reason in line
    assert "call sonde.step() after each update" in line
    assert line.endswith("[no-step-yet]")
    assert bool(told_before_the_end) == (times > 20)
    assert f"{min(times, 20)} times" in line


def test_gradients_that_autograd_returns_count_as_well() -> None:
    weight = torch.ones(4, requires_grad=True)
    with watch() as seen:
        for _ in range(3):
            torch.autograd.grad((weight * weight).sum(), weight)
    assert "3 times" in seen.reports[0]


@pytest.mark.parametrize("steps", ["all", "5"])
def test_a_program_whose_steps_end_is_told_nothing(
    steps: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endless_step, "MANY_PASSES", 4)
    net = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with watch(steps=steps) as seen:
        for _ in range(2):
            for _ in range(3):
                net(torch.ones(1, 2)).sum().backward()
            optimizer.step()
        for _ in range(9):
            net(torch.ones(1, 2)).sum().backward()
    assert seen.reports == []


def test_one_backward_pass_is_one_step() -> None:
    with watch() as seen:
        update_by_hand(1)
    assert seen.reports == []


def test_passes_that_the_compiler_traces_do_not_count() -> None:
    with watch() as seen:
        torch.compile(nn.Linear(2, 1), backend="aot_eager")(torch.ones(1, 2)).sum().backward()
    assert not [line for line in seen.reports if "[no-step-yet]" in line]


def test_without_a_capture_nothing_is_said(capfd: pytest.CaptureFixture[str]) -> None:
    with attach(None, starts_at_once=True):
        update_by_hand(200)
    assert capfd.readouterr().err == ""
