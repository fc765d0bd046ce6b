"""exp overflows to inf; only inf - inf is NaN, two ops later."""

import torch
from torch import nn


class Softmax(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        numerator = torch.exp(x)  # FIRST
        return numerator - numerator.sum(1, keepdim=True)


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 3), Softmax())
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    net(torch.randn(5, 4) * (1 if step < 2 else 1000)).mean().backward()
    optimizer.step()
