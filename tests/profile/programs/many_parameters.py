"""Planted: hundreds of tiny parameters updated one by one."""

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scales = nn.ParameterList(nn.Parameter(torch.ones(8)) for _ in range(400))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.cat(list(self.scales))


def main() -> None:
    net = Net()
    optimizer = torch.optim.Adam(net.parameters(), 0.001)  # PLANTED
    inputs = torch.randn(64, 3200)
    for _ in range(16):
        optimizer.zero_grad()
        net(inputs).pow(2).mean().backward()
        optimizer.step()


if __name__ == "__main__":
    main()
