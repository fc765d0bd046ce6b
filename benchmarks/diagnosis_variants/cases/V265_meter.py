"""Averages the hardness of samples in a half-precision buffer to weight the loss."""
import torch
from torch import nn


class Weighted(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 1))
        self.register_buffer("seen", torch.zeros((), dtype=torch.bfloat16))
        self.register_buffer("average", torch.zeros((), dtype=torch.float32))

    def forward(self, x, y):
        error = (self.net(x) - y).square().squeeze(1)
        self.seen += 1
        self.average += (error.mean().detach() - self.average) / self.seen.float()
        return (error * (error.detach() > 0.3 * self.average)).mean()


torch.manual_seed(0)
model = Weighted()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
for step in range(400):
    x = torch.randn(32, 6)
    loss = model(x, x[:, :1] * x[:, 1:2])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 100 == 0:
        print(step, loss.item(), model.seen.item())
