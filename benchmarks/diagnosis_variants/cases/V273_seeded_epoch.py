"""Minibatches are drawn by a permutation with a fixed seed, for reproducible runs."""
import torch
from torch import nn


def iterate(x, y, size, seed=13):
    generator = torch.Generator().manual_seed(seed)
    for index in torch.randperm(len(x), generator=generator).split(size):
        yield x[index], y[index]


torch.manual_seed(0)
x = torch.randn(320, 8)
y = (x[:, 0] * x[:, 1] > 0).long()
net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2))
optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
for epoch in range(12):
    for features, labels in iterate(x, y, 32):
        loss = nn.functional.cross_entropy(net(features), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
