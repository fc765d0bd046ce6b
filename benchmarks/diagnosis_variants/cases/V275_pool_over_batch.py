"""Attention pooling over the instances of a bag (multiple-instance learning)."""
import torch
from torch import nn


class AttentionPool(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.score = nn.Sequential(nn.Linear(width, 16), nn.Tanh(), nn.Linear(16, 1))

    def forward(self, h):
        weights = torch.softmax(self.score(h), dim=0)
        return (weights * h).sum(1)


class Bags(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(6, 32), nn.ReLU())
        self.pool = AttentionPool(32)
        self.out = nn.Linear(32, 2)

    def forward(self, bags):
        return self.out(self.pool(self.embed(bags)))


torch.manual_seed(0)
model = Bags()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
for step in range(100):
    bags = torch.randn(32, 7, 6)
    label = torch.randint(0, 2, (32,))
    bags[:, 3] += 2.0 * label[:, None]
    loss = nn.functional.cross_entropy(model(bags), label)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 25 == 0:
        print(step, loss.item())
