"""A weight is broken before training starts."""

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
with torch.no_grad():
    net[2].bias.copy_(torch.tensor([float("nan")]))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    net(torch.randn(5, 4)).square().mean().backward()  # FIRST
    optimizer.step()
