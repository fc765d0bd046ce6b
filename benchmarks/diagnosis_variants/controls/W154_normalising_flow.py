"""Coupling flow: the last layers of each coupling start at zero, which makes the identity."""
import torch
from torch import nn


class Coupling(nn.Module):
    def __init__(self, flip):
        super().__init__()
        self.flip = flip
        self.net = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 2))
        nn.init.zeros_(self.net[2].weight)
        nn.init.zeros_(self.net[2].bias)

    def forward(self, x):
        a, b = x.flip(1).chunk(2, 1) if self.flip else x.chunk(2, 1)
        s, t = self.net(a).chunk(2, 1)
        s = s.tanh()
        return torch.cat([a, b * s.exp() + t], 1), s.squeeze(1)


torch.manual_seed(0)
flow = nn.ModuleList(Coupling(i % 2 == 1) for i in range(4))
optimizer = torch.optim.Adam(flow.parameters(), lr=5e-3)
for step in range(150):
    x = torch.randn(128, 2)
    x = torch.stack([x[:, 0], x[:, 0].square() + 0.3 * x[:, 1]], 1)
    log_det = 0
    for layer in flow:
        x, s = layer(x)
        log_det = log_det + s
    loss = (0.5 * x.square().sum(1) - log_det).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
