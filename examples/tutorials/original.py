"""A small attention classifier: the original, of which ``port.py`` is a port.

python original.py
"""

from __future__ import annotations

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norm(x)).chunk(3, dim=-1)
        scores = (q @ k.transpose(-2, -1)) * q.shape[-1] ** -0.5
        return x + self.project(torch.softmax(scores, dim=-1) @ v)


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(32, 16)
        self.attention = Attention(16)
        self.head = nn.Linear(16, 4)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.attention(self.embedding(tokens)).mean(dim=1))


def train(network: nn.Module) -> None:
    """Train on sentences whose class is that of their most frequent quarter of the words."""
    data = torch.Generator().manual_seed(1)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    for step in range(40):
        tokens = torch.randint(32, (64, 9), generator=data)
        target = torch.nn.functional.one_hot(tokens // 8, 4).sum(dim=1).argmax(dim=1)
        loss = nn.functional.cross_entropy(network(tokens), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 13 == 0:
            print(f"step {step}: loss {loss.item():.4f}")


if __name__ == "__main__":
    torch.manual_seed(0)
    train(Classifier())
