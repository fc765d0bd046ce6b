"""A function with a backward of its own, which divides by its input."""

from typing import Any

import torch
from torch import nn


class Magnitude(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x.abs()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return gradient * x.abs() / x  # FIRST


torch.manual_seed(0)
net = nn.Linear(4, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(2):
    optimizer.zero_grad()
    Magnitude.apply(net(torch.randn(5, 4)) * (1 if step == 0 else 0)).sum().backward()
    optimizer.step()
