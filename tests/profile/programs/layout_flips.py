"""Planted: images to channels_last and back around every activation."""

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3)
        self.scales = nn.ParameterList(nn.Parameter(torch.ones(16, 1, 1)) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        for scale in self.scales:
            x = x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2).contiguous()  # PLANTED
            x = x * scale
        return x


def main() -> None:
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.01, fused=True)
    inputs = torch.randn(16, 3, 32, 32)
    for _ in range(16):
        optimizer.zero_grad()
        net(inputs).pow(2).mean().backward()
        optimizer.step()


if __name__ == "__main__":
    main()
