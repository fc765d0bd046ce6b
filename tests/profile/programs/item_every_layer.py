"""Planted: a value read out of every layer in every step."""

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(128, 128) for _ in range(12))
        self.norms: list[float] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.relu(layer(x))
            self.norms.append(x.detach().abs().sort().values.mean().item())  # PLANTED
        return x


def main() -> None:
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.01, fused=True)
    inputs = torch.randn(64, 128)
    for _ in range(16):
        optimizer.zero_grad()
        net(inputs).pow(2).mean().backward()
        optimizer.step()


if __name__ == "__main__":
    main()
