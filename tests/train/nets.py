"""Small networks and data for the tests of the training toolkit."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset


def data(count: int = 32, features: int = 4) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(7)
    x = torch.randn(count, features, generator=generator)
    return x, (x.sum(1) > 0).long()


def loader(
    batch: int = 8, *, shuffle: bool = False, count: int = 32, **options: object
) -> DataLoader[tuple[Tensor, ...]]:
    return DataLoader(
        TensorDataset(*data(count)),
        batch_size=batch,
        shuffle=shuffle,
        **options,  # type: ignore[arg-type]
    )


def classifier(seed: int = 0, dropout: float = 0.0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(dropout), nn.Linear(8, 2))


def sgd(network: nn.Module, rate: float = 0.1) -> torch.optim.SGD:
    return torch.optim.SGD(network.parameters(), rate, momentum=0.9)
