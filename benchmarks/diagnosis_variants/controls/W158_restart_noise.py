"""Shrink and perturb between tasks: weights are scaled and get noise, on purpose; fresh optimizer."""
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 48), nn.ReLU(), nn.Linear(48, 1))
for task in range(4):
    w = torch.randn(6)
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    for step in range(50):
        x = torch.randn(64, 6)
        loss = nn.functional.mse_loss(net(x).squeeze(1), (x @ w).relu())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(task, loss.item())
    with torch.no_grad():
        for p in net.parameters():
            p.mul_(0.6).add_(0.01 * torch.randn_like(p))
