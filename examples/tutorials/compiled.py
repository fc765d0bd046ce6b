"""Trains a compiled network, with a faster formula for SiLU that is not quite SiLU.

Compilers are extended by decompositions and passes, as here: ``fast_silu`` replaces the sigmoid in
compiled code only, so that eager and compiled training differ.

    python compiled.py [--eager]
"""

from __future__ import annotations

import sys

import torch
from torch import nn
from torch._inductor.decomposition import decompositions


def fast_silu(x: torch.Tensor) -> torch.Tensor:
    """``x * sigmoid(x)``, with a sigmoid that is cheaper than the exact one."""
    return x * (0.5 + 0.5 * x / (1 + x.abs()))


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 32)
        self.last = nn.Linear(32, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(nn.functional.silu(self.first(x)))


def main() -> None:
    torch.manual_seed(0)
    network = Network()
    decompositions[torch.ops.aten.silu.default] = fast_silu
    model = network if "--eager" in sys.argv else torch.compile(network)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for step in range(3):
        batch = torch.randn(16, 8)
        loss = (model(batch)[:, 0] - batch.sum(dim=1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}: loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
