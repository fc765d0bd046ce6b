"""Under autocast a layer's output leaves the range of float16."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wide = nn.Linear(16, 16)
        self.out = nn.Linear(16, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.wide(x)
        return self.out(hidden * hidden)  # FIRST


torch.manual_seed(0)
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=1e-9)
for step in range(3):
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.float16):
        loss = net(torch.randn(4, 16) * (1 if step == 0 else 2000)).float().square().mean()
    loss.backward()
    optimizer.step()
