"""A recurrent state is carried over steps; it becomes non-finite in one and is read in the next."""

import torch
from torch import nn

torch.manual_seed(0)
net = nn.GRUCell(3, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
state = torch.zeros(2, 4)
for step in range(4):
    optimizer.zero_grad()
    state = net(torch.randn(2, 3), state)
    state.square().mean().backward()
    optimizer.step()
    state = state.detach() / (step != 1)  # FIRST
