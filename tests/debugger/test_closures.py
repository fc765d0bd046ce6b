"""Optimizers that compute the gradients by calling a closure."""

from __future__ import annotations

import msgspec
import pytest
import torch
from tests.debugger.driving import driven, make_net
from tests.debugger.hub import Hub, watchpoint

NEVER = {"break_after": 0}


@pytest.mark.parametrize("kind", ["LBFGS", "SGD"])
def test_the_loss_and_the_gradients_are_those_of_the_step(kind: str) -> None:
    net = make_net()
    losses: list[float] = []
    largest: list[float] = []

    def training() -> None:
        torch.manual_seed(1)
        data, target = torch.randn(32, 8), torch.randn(32, 4)
        options = {"max_iter": 4} if kind == "LBFGS" else {"lr": 0.1}
        optimizer = getattr(torch.optim, kind)(net.parameters(), **options)

        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = ((net(data) - target) ** 2).mean()
            loss.backward()
            return loss

        for _ in range(4):
            losses.append(optimizer.step(closure).item())
            assert net.fc1.bias.grad is not None
            largest.append(float(net.fc1.bias.grad.abs().max()))

    spec = watchpoint(1, "expression", "fc1.bias.grad", expression="abs_max >= 0")
    hub = Hub(paused=False, watchpoints=(msgspec.structs.replace(spec, **NEVER),))
    _, rank = driven(training, lambda rank: None, hub=hub)
    assert [step.point.loss for step in rank.steps] == losses
    assert [hit.step for hit in rank.hits] == [0, 1, 2, 3]
    assert [hit.values[0].actual for hit in rank.hits] == largest
