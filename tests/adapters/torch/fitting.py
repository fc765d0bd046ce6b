"""A few steps of a training, and a collection of such trainings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

Training = Callable[[], Any]


class Trainings(dict[str, Training]):
    """By their names, which are those of their functions."""

    def add(self, function: Training) -> Training:
        self[function.__name__] = function
        return function


def weights(*modules: nn.Module) -> list[torch.Tensor]:
    return [value.clone() for module in modules for value in module.state_dict().values()]


def fit(
    net: nn.Module,
    optimizer: torch.optim.Optimizer,
    make: Callable[[], tuple[torch.Tensor, torch.Tensor]],
    loss_of: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] = functional.mse_loss,
    steps: int = 3,
) -> list[Any]:
    losses = []
    for _ in range(steps):
        x, y = make()
        optimizer.zero_grad()
        loss = loss_of(net(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return [losses, weights(net)]


def mlp() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(inplace=True), nn.Linear(8, 2))


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(5, 4), torch.randn(5, 2)
