"""Classify spirals with RMSprop."""
import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--rate", type=float, default=0.5)
parser.add_argument("--steps", type=int, default=150)
arguments = parser.parse_args()
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
optimizer = torch.optim.RMSprop(net.parameters(), lr=arguments.rate, centered=True)
for step in range(arguments.steps):
    t = torch.rand(128) * 9
    y = torch.randint(0, 2, (128,))
    x = torch.stack([t * (t + 3.14 * y).cos(), t * (t + 3.14 * y).sin()], 1) / 5
    loss = nn.functional.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 25 == 0:
        print(step, loss.item())
