import torch
from torch import nn


class Unit(nn.Module):
    def forward(self, x):
        return x / (x.pow(2).sum(-1, keepdim=True).pow(0.5) + 1e-6)


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(10, 6, bias=False), Unit(), nn.Linear(6, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for step in range(60):
    x = torch.randn(64, 10) * (torch.rand(64, 1) < 0.8)
    y = (x[:, 0] > 0).long()
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
