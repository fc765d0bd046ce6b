"""Numerically careful code: eps under the root, clamped logarithm, masked softmax with a sink."""
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 32), nn.SiLU(), nn.Linear(32, 6))
optimizer = torch.optim.AdamW(net.parameters(), lr=2e-3)
for step in range(100):
    x = torch.randn(32, 6)
    keep = torch.rand(32, 6) < 0.5
    keep[:, 0] = True
    scores = net(x).masked_fill(~keep, float("-inf"))
    p = scores.softmax(-1)
    target = (x.abs() * keep) / (x.abs() * keep).sum(1, keepdim=True)
    hellinger = ((p + 1e-12).sqrt() - (target + 1e-12).sqrt()).square().sum(1)
    positive = torch.where(x > 0, x, torch.ones_like(x))
    penalty = torch.where(x > 0, positive.log().abs(), torch.zeros_like(x)).mean()
    loss = hellinger.mean() + 1e-3 * penalty
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
