"""Regression on large raw targets; the inputs are standardised inside by a BatchNorm."""
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.BatchNorm1d(5, affine=False), nn.Linear(5, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=20)
for step in range(150):
    x = torch.rand(64, 5) * torch.tensor([1000.0, 10.0, 5e4, 1.0, 300.0])
    y = x[:, :1] / 500 + x[:, 2:3] / 5e4
    loss = nn.functional.huber_loss(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step(loss.item())
    if step % 30 == 0:
        print(step, loss.item())
