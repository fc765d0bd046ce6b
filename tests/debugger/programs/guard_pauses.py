"""Trains under a guard that pauses when the loss of step 2 is NaN."""

import sys

import torch
from torch import nn

import sonde

net = nn.Linear(3, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
with sonde.guard(sys.argv[1], on_trigger="pause"):
    for step in range(4):
        x = torch.ones(2, 3)
        if step == 2:
            x[1] = float("nan")
        optimizer.zero_grad()
        net(x).mean().backward()
        optimizer.step()
print("done")
