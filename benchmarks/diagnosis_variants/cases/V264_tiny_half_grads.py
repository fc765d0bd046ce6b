"""Fit a field in float16; the loss is a mean over many points."""
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(2, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh(), nn.Linear(48, 1)).half()
optimizer = torch.optim.SGD(net.parameters(), lr=0.5, momentum=0.9)
for step in range(80):
    points = torch.rand(4096, 2) * 2 - 1
    value = 1e-3 * (3 * points[:, :1]).sin() * points[:, 1:]
    guess = net(points.half()) * 1e-3
    loss = (guess - value.half()).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
