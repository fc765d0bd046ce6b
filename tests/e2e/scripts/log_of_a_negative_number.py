"""A gate takes the logarithm of its input; the third batch has a negative number."""

import torch
from torch import nn


class Gated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate = torch.log(x[:, :1] + 1)  # FIRST
        return self.fc(x) * gate


torch.manual_seed(0)
net = Gated()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(5):
    x = torch.rand(3, 4)
    if step == 2:
        x[1, 0] = -3
    optimizer.zero_grad()
    net(x).square().mean().backward()
    optimizer.step()
