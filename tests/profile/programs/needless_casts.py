"""Planted: activations to double and back between layers."""

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = x.double().float()  # PLANTED
            x = torch.relu(layer(x))
        return x


def main() -> None:
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.01, fused=True)
    inputs = torch.randn(4096, 64)
    for _ in range(16):
        optimizer.zero_grad()
        net(inputs).pow(2).mean().backward()
        optimizer.step()


if __name__ == "__main__":
    main()
