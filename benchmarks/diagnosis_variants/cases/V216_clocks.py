import torch
from torch import nn


class Standardise(nn.Module):
    """Uses the moments of the batch."""

    def forward(self, x):
        mean = x.mean(0)
        var = (x * x).mean(0) - mean * mean
        return (x - mean) / torch.sqrt(var.clamp(min=0) + 1e-6)


torch.manual_seed(7)
base = torch.tensor([3.1e4, 8.0e3, 5.5e4])
net = nn.Sequential(Standardise(), nn.Linear(3, 32), nn.Tanh(), nn.Linear(32, 1))
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
for step in range(150):
    delta = torch.randn(64, 3)
    y = delta[:, :1] * delta[:, 1:2] + delta[:, 2:]
    loss = nn.functional.mse_loss(net(base + delta), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 30 == 0:
        print(step, loss.item())
