"""A failure of the debugger is reported once and disables it; the training continues unchanged."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.debugger.driving import driven, make_net
from tests.debugger.hub import Hub

from sonde.debugger.debugger import Debugger


def train_with_a_mistake() -> tuple[list[float], str]:
    """Losses, and what the program's own mistake in the third step was called."""
    torch.manual_seed(1)
    net = make_net()
    data, target = torch.randn(32, 8), torch.randn(32, 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    losses, said = [], ""
    for step in range(5):
        optimizer.zero_grad()
        loss = ((net(data) - target) ** 2).mean()
        loss.backward()
        if step == 2:
            try:
                loss.backward()
            except RuntimeError as error:
                said = str(error)
        optimizer.step()
        losses.append(loss.item())
    return losses, said


@pytest.mark.parametrize(
    "method", ["between_ops", "before_update", "step_ended", "collective_failed"]
)
def test_a_debugger_that_breaks_is_switched_off_and_the_program_sees_its_own_errors_only(
    method: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    bare = train_with_a_mistake()
    assert "backward through the graph a second time" in bare[1]

    def broken(*_: Any) -> None:
        raise ValueError("oops")

    monkeypatch.setattr(Debugger, method, broken)
    debugged, _ = driven(
        train_with_a_mistake, lambda rank: None, hub=Hub(paused=False), world_size=2
    )
    assert debugged == bare
    said = capfd.readouterr().err
    assert said.count("the debugger failed and is switched off, training goes on") == 1
    assert "ValueError: oops [debugger-failed]" in said
