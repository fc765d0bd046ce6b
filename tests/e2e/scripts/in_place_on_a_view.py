"""An op spoils a row of a tensor in place; what reads the whole of it comes later."""

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(4, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    x = torch.rand(3, 4) + 1
    row = x[1]
    whole = x.t()
    if step == 1:
        row.sub_(2).log_()  # FIRST
    optimizer.zero_grad()
    (net(whole.t()) * 2).mean().backward()
    optimizer.step()
