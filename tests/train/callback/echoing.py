"""A network whose losses are given, for tests of callbacks."""

from __future__ import annotations

from typing import Any

import torch
from tests.train.nets import classifier, sgd
from torch import nn

from sonde.train import (
    Model,
)


def model(**options: Any) -> Model:
    network = classifier()
    return Model(network, nn.CrossEntropyLoss(), sgd(network), **options)


def losses_of(values: list[float]) -> list[torch.Tensor]:
    """A dataset whose losses are these values, for a network that returns its input times one."""
    return [torch.tensor(value) for value in values]


class Echo(nn.Module):
    """Its loss is its input, so a test decides what the loss is."""

    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Parameter(torch.ones(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.one.detach() + 0 * self.one


def echo_run(values: list[float], listed: Any, epochs: int = 1, **options: Any) -> Model:
    network = Echo()
    made = Model(network, optimizer=torch.optim.SGD(network.parameters(), 0.1), **options)
    made.train(epochs, losses_of(values), listed)
    return made
