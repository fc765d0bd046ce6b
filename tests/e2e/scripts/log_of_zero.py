"""-inf comes first, and becomes a NaN only when it is multiplied by zero."""

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(4, 3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    odds = torch.relu(net(torch.randn(5, 4)))
    entropy = odds * torch.log(odds)  # FIRST
    entropy.sum().backward()
    optimizer.step()
