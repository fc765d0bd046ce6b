"""Planted: images to channels_last and back around every activation."""

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv2d(16, 16, 1) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
            x = x.contiguous(memory_format=torch.channels_last)
            x = torch.relu(x).contiguous()  # PLANTED
        return x


def main() -> None:
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.01, fused=True)
    inputs = torch.randn(32, 16, 32, 32)
    for _ in range(16):
        optimizer.zero_grad()
        net(inputs).pow(2).mean().backward()
        optimizer.step()


if __name__ == "__main__":
    main()
