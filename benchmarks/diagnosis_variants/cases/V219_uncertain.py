import math

import torch
from torch import nn


class MeanVariance(nn.Module):
    def __init__(self):
        super().__init__()
        self.shared = nn.Sequential(nn.Linear(6, 48), nn.ReLU())
        self.mu, self.log_var = nn.Linear(48, 1), nn.Linear(48, 1)

    def forward(self, x):
        h = self.shared(x)
        return self.mu(h), self.log_var(h)


def gaussian_nll(mu, log_var, y):
    return 0.5 * (log_var + (y - mu) ** 2 / log_var.exp() + math.log(2 * math.pi)).mean()


torch.manual_seed(8)
x = torch.randn(800, 6)
y = x[:, 0] * 2 + x[:, 1].abs() * torch.randn(800)
net = MeanVariance()
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
for epoch in range(6):
    for idx in torch.randperm(800).split(80):
        mu, log_var = net(x[idx])
        loss = gaussian_nll(mu, log_var, y[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, loss.item())
