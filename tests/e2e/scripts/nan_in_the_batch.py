"""The data has a missing value."""

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
batches = torch.randn(3, 5, 4)
batches[1, 2, 2] = float("nan")
for x in batches.unbind():
    optimizer.zero_grad()
    net(x).square().mean().backward()  # FIRST
    optimizer.step()
