"""An unused weight has a gradient of zero; without epsilon Adam divides zero by zero."""

import torch
from torch import nn

torch.manual_seed(0)
table = nn.Embedding(5, 3)
optimizer = torch.optim.Adam(table.parameters(), eps=0.0, foreach=False)
for _ in range(2):
    optimizer.zero_grad()
    table(torch.tensor([0, 1])).square().sum().backward()
    optimizer.step()  # FIRST
