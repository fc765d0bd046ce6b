"""The same training by ``Model`` and by hand."""

from __future__ import annotations

from typing import Any

from tests.train.nets import classifier, loader, sgd
from torch import nn

from sonde.train import (
    Callback,
    Model,
    RunContext,
)


class Losses(Callback):
    def __init__(self) -> None:
        self.values: list[float] = []

    def on_train_step_end(self, run_context: RunContext) -> None:
        self.values.append(float(run_context.original_args().net_outputs))


def train(dataset: Any, epochs: int = 1, **options: Any) -> list[float]:
    network = classifier()
    losses = Losses()
    Model(network, nn.CrossEntropyLoss(), sgd(network), **options).train(epochs, dataset, losses)
    return losses.values


def by_hand(
    epochs: int = 1, dropout: float = 0.0, shuffle: bool = False
) -> tuple[list[float], Any]:
    network = classifier(dropout=dropout)
    optimizer = sgd(network)
    losses = []
    dataset = loader(shuffle=shuffle)
    for _ in range(epochs):
        for x, y in dataset:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(network(x), y)
            loss.backward()
            optimizer.step()
            losses.append(float(loss.detach()))
    return losses, network.state_dict()
