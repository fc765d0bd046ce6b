"""Learns from pairs of signals whether both come from the same source.

A pair in which both signals are equal has distance 0, where the square root has no finite gradient:
the weights become NaN in that step, and the loss in the next one. ``--fixed`` keeps the square root
away from 0.

    python pairs.py [--fixed]
"""

from __future__ import annotations

import sys

import torch
from torch import nn

FIXED = "--fixed" in sys.argv


class Distance(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 8))

    def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        difference = self.embedding(left) - self.embedding(right)
        squares = difference.square().sum(dim=1)
        if FIXED:
            return torch.sqrt(squares + 1e-8)
        return torch.sqrt(squares)


def main() -> None:
    torch.manual_seed(0)
    left = torch.randn(320, 16)
    same = torch.rand(320) < 0.5
    right = torch.where(same[:, None], left + 0.1 * torch.randn(320, 16), torch.randn(320, 16))
    right[171] = left[171]  # A pair that was recorded twice.
    network = Distance()
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    for step in range(10):
        rows = slice(32 * step, 32 * step + 32)
        distance = network(left[rows], right[rows])
        loss = torch.where(same[rows], distance, (1 - distance).clamp(min=0)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}: loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
