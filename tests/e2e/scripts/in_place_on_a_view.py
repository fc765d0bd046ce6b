"""An op makes a row of a tensor non-finite in place; a later op reads the whole tensor."""

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
