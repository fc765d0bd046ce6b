"""A port of ``original.py`` with modules of other names. One constant was forgotten.

python port.py
"""

from __future__ import annotations

import torch
from original import train
from torch import nn


class SelfAttention(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.ln = nn.LayerNorm(width)
        self.in_proj = nn.Linear(width, 3 * width)
        self.out_proj = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = self.in_proj(self.ln(x)).chunk(3, dim=-1)
        weights = torch.softmax(torch.matmul(query, key.transpose(1, 2)), dim=-1)
        return x + self.out_proj(torch.matmul(weights, value))


class PortedClassifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(32, 16)
        self.block = SelfAttention(16)
        self.classes = nn.Linear(16, 4)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.classes(self.block(self.words(tokens)).mean(dim=1))


if __name__ == "__main__":
    torch.manual_seed(0)
    train(PortedClassifier())
