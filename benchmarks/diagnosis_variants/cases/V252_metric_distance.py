"""Metric learning with hard triplets from a matrix of distances."""
import torch
from torch import nn


def distances(z):
    squares = (z * z).sum(1)
    return (squares[:, None] - 2 * z @ z.T + squares[None]).clamp(min=0).sqrt()


def batch_hard(z, labels, margin=0.3):
    d = distances(z)
    same = labels[:, None] == labels[None]
    farthest = d.masked_fill(~same, 0).amax(1)
    nearest = d.masked_fill(same, 1e4).amin(1)
    return (farthest - nearest + margin).relu().mean() + 1e-3 * d.mean()


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(20, 64), nn.PReLU(), nn.Linear(64, 8))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
centres = torch.randn(6, 20)
for step in range(60):
    labels = torch.arange(6).repeat_interleave(4)
    x = centres[labels] + 0.4 * torch.randn(24, 20)
    loss = batch_hard(net(x), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
