"""Calls the debugger itself, and saves its state when it is terminated."""

import torch
from torch import nn

import sonde
from sonde.debugger import Terminated

net = nn.Linear(3, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
done = 0
try:
    with sonde.debug():
        while True:
            optimizer.zero_grad()
            net(torch.ones(2, 3)).mean().backward()
            optimizer.step()
            done += 1
            if done == 2:
                sonde.breakpoint()
except Terminated:
    print("saved after", done)
