"""Regression on amounts that may be negative, with a learnt signed power transform."""
import torch
from torch import nn


class SignedRoot(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))
        self.shift = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        z = x * self.scale + self.shift
        return torch.where(z > 0, torch.sqrt(z), -torch.sqrt(-z))


torch.manual_seed(0)
model = nn.Sequential(SignedRoot(6), nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(50):
    x = torch.randn(64, 6) * 5
    y = x.sign() * x.abs().sqrt()
    loss = nn.functional.l1_loss(model(x), y.sum(1, keepdim=True))
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
