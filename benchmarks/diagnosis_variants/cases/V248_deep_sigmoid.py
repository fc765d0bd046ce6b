"""A deep fully connected network for a two-spirals task."""
import math

import torch
from torch import nn


def spirals(n):
    t = torch.rand(n) * 3 * math.pi
    label = torch.randint(0, 2, (n,))
    t2 = t + math.pi * label
    points = torch.stack([t * t2.cos(), t * t2.sin()], 1) / 10
    return points + 0.02 * torch.randn(n, 2), label


class Deep(nn.Module):
    def __init__(self, width=24, depth=14):
        super().__init__()
        self.inp = nn.Linear(2, width)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.out = nn.Linear(width, 2)

    def forward(self, x):
        x = self.inp(x).sigmoid()
        for layer in self.layers:
            x = layer(x).sigmoid()
        return self.out(x)


torch.manual_seed(0)
net = Deep()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
for step in range(150):
    x, y = spirals(128)
    loss = nn.functional.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 30 == 0:
        print(step, loss.item(), net.inp.weight.grad.norm().item())
