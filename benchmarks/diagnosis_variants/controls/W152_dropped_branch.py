"""Stochastic depth: blocks are skipped at random in training."""
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(8, 32)
        self.blocks = nn.ModuleList(nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 32), nn.ReLU()) for _ in range(4))
        self.out = nn.Linear(32, 2)

    def forward(self, x):
        x = self.inp(x)
        for i, block in enumerate(self.blocks):
            if not self.training or torch.rand(()) > 0.2 * i:
                x = x + block(x)
        return self.out(x)


torch.manual_seed(0)
net = Net()
optimizer = torch.optim.AdamW(net.parameters(), lr=2e-3)
for step in range(120):
    x = torch.randn(64, 8)
    loss = nn.functional.cross_entropy(net(x), (x[:, 0] * x[:, 1] > 0).long())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
