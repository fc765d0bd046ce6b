"""Padding masks out a whole row: the softmax of nothing but -inf is NaN."""

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Linear(8, 8)
        self.key = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        scores = self.query(x) @ self.key(x).transpose(1, 2)
        padding = torch.arange(x.shape[1]) >= lengths[:, None]
        scores = scores.masked_fill(padding[:, None, :], float("-inf"))  # FIRST
        return torch.softmax(scores, -1) @ x


torch.manual_seed(0)
net = Attention()
optimizer = torch.optim.AdamW(net.parameters())
for step in range(3):
    lengths = torch.tensor([4, 3]) if step < 1 else torch.tensor([4, 0])
    optimizer.zero_grad()
    net(torch.randn(2, 4, 8), lengths).square().mean().backward()
    optimizer.step()
