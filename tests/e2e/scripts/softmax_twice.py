"""A classifier that applies softmax before a loss that applies it again."""

import torch
from torch import nn

torch.manual_seed(0)


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 16), nn.ReLU())
        self.head = nn.Linear(16, 3)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        scores = self.head(self.body(rows))
        return torch.softmax(scores, dim=-1)


model = Classifier()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
rows = torch.randn(256, 8)
labels = (rows[:, 0] > 0).long() + (rows[:, 1] > 0).long()
for _ in range(40):
    chosen = torch.randint(0, 256, (32,))
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(rows[chosen]), labels[chosen])
    loss.backward()
    optimizer.step()
