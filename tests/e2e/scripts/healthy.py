"""A training in which nothing goes wrong; prints its losses."""

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for _ in range(3):
    x = torch.randn(16, 6)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(net(x), (x.sum(1) > 0).long())
    loss.backward()
    optimizer.step()
    print(loss.item().hex())
