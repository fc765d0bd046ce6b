"""A soft mixture of experts for regression."""
import torch
from torch import nn


class Mixture(nn.Module):
    def __init__(self, features, experts=4, hidden=16):
        super().__init__()
        self.gate = nn.Linear(features, experts)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(features, hidden), nn.Tanh(), nn.Linear(hidden, 1))
            for _ in range(experts)
        )

    def forward(self, x):
        share = torch.softmax(self.gate(x), dim=0)
        answers = torch.cat([expert(x) for expert in self.experts], dim=1)
        return (share * answers).sum(dim=1)


def tasks(n):
    x = torch.randn(n, 6)
    region = (x[:, 0] > 0).long() * 2 + (x[:, 1] > 0).long()
    slope = torch.tensor([1.0, -2.0, 3.0, -1.0])[region]
    return x, slope * x[:, 2] + x[:, 3]


torch.manual_seed(93)
model = Mixture(6)
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(150):
    x, y = tasks(64)
    loss = (model(x) - y).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 50 == 0:
        print(step, loss.item())
