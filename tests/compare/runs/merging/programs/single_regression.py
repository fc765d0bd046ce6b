"""The reference of sharded.py."""

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, foreach=False)
generator = torch.Generator().manual_seed(1)
data, goal = torch.randn(2, 8, 8, generator=generator), torch.randn(2, 8, 4, generator=generator)
for step in range(2):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(net(data[step]), goal[step])
    loss.backward()
    optimizer.step()
