"""A loop whose steps never end gets a notice, and the values kept of it stay bounded."""

from __future__ import annotations

import pytest
import torch
from tests.debugger.driving import driven
from tests.debugger.hub import Hub

from sonde.adapters.torch.attach import end_step, running_debugger
from sonde.adapters.torch.debugging import loss as debugging_loss
from sonde.adapters.torch.steps import endless_step
from sonde.wire.rank import Notice

PASSES = 20


def train(*, tells_steps: bool) -> int:
    """By hand, without an optimizer; how many losses are kept at its end."""
    weight = torch.ones(4, requires_grad=True)
    for _ in range(PASSES):
        (weight * weight).sum().backward()
        with torch.no_grad():
            assert weight.grad is not None
            weight -= 0.1 * weight.grad
        weight.grad = None
        if tells_steps:
            end_step()
    running = running_debugger()
    assert running is not None
    return len(running._loss._roots)


@pytest.mark.parametrize("tells_steps", [False, True])
def test_a_loop_without_an_optimizer_gets_a_notice_how_its_steps_can_end(
    tells_steps: bool, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(endless_step, "MANY_PASSES", 6)
    monkeypatch.setattr(debugging_loss, "MOST_ROOTS", 5)
    kept, rank = driven(
        lambda: train(tells_steps=tells_steps),
        lambda rank: None,
        hub=Hub(paused=False),
        step_by="manual" if tells_steps else "optimizer",
    )
    assert kept is not None
    assert kept <= 5
    said = capfd.readouterr().err
    assert said.count("[no-step-yet]") == (0 if tells_steps else 1)
    reported = [each for each in rank.all(Notice) if each.slug == "no-step-yet"]
    assert len(reported) == (0 if tells_steps else 1)


def test_losses_of_very_many_passes_are_added_up_as_those_of_few(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def accumulate() -> None:
        weight = torch.nn.Parameter(torch.ones(3))
        optimizer = torch.optim.SGD([weight], lr=0.1)
        for _ in range(2):
            for number in range(PASSES):
                (weight * 0.1 * number).sum().backward()
            optimizer.step()

    losses = []
    for most in (1000, 3):
        monkeypatch.setattr(debugging_loss, "MOST_ROOTS", most)
        _, rank = driven(accumulate, lambda rank: None, hub=Hub(paused=False))
        losses.append([each.point.loss for each in rank.steps])
    assert losses[0] == losses[1]
    assert len(losses[0]) == 2
