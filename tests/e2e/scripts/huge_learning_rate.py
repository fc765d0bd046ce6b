"""The update itself overflows; the step after that starts with infinite weights."""

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=3e38)
for _ in range(3):
    optimizer.zero_grad()
    (net(torch.randn(5, 4)) * 10).square().mean().backward()
    optimizer.step()  # FIRST
