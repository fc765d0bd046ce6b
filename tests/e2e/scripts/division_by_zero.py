"""Normalising by hand: the second batch has a column in which all are equal."""

import torch
from torch import nn


def normalise(x: torch.Tensor) -> torch.Tensor:
    deviation = x.std(0)
    return (x - x.mean(0)) / deviation  # FIRST


torch.manual_seed(0)
net = nn.Linear(4, 2)
optimizer = torch.optim.Adam(net.parameters())
for step in range(3):
    x = torch.randn(6, 4)
    if step == 1:
        x[:, 3] = 2.0
    optimizer.zero_grad()
    net(normalise(x)).square().mean().backward()
    optimizer.step()
