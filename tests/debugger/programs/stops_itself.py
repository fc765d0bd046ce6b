"""Asks for the debugger by itself, and saves what it has when it is ended."""

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
