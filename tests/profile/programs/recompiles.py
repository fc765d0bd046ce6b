"""Planted: a compiled function that is compiled again in every step."""

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)
torch._dynamo.config.recompile_limit = 64

net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))


@torch.compile(backend="eager")
def loss_of(x: torch.Tensor, name: str) -> torch.Tensor:
    return net(x).pow(2).mean() + len(name)  # PLANTED


def main() -> None:
    optimizer = torch.optim.SGD(net.parameters(), 0.01, fused=True)
    inputs = torch.randn(32, 64)
    for step in range(12):
        optimizer.zero_grad()
        loss_of(inputs, f"step {step}").backward()
        optimizer.step()


if __name__ == "__main__":
    main()
