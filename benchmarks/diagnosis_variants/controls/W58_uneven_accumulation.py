"""Accumulates sums and divides by the real number of samples, also in the shorter last group."""
import torch
from torch import nn

torch.manual_seed(158)
x = torch.randn(230, 12)
y = x @ torch.randn(12, 2) + 0.1 * torch.randn(230, 2)
model = nn.Sequential(nn.Linear(12, 24), nn.Softplus(), nn.Linear(24, 2))
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(10):
    order = torch.randperm(230).split(64)
    for group in order:
        opt.zero_grad()
        total = 0.0
        for part in group.split(16):
            error = nn.functional.mse_loss(model(x[part]), y[part], reduction="sum")
            (error / (2 * len(group))).backward()
            total += error.item()
        opt.step()
    print(epoch, total / (2 * len(group)))
