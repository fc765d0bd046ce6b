"""Autoencoder for anomaly scores, checked on a held-out set after each epoch."""
import torch
import torch.nn.functional as F
from torch import nn


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Conv1d(1, 16, 5, stride=2, padding=2)
        self.deeper = nn.Conv1d(16, 32, 5, stride=2, padding=2)
        self.up = nn.ConvTranspose1d(32, 16, 4, stride=2, padding=1)
        self.out = nn.ConvTranspose1d(16, 1, 4, stride=2, padding=1)

    def encode(self, x):
        x = F.elu(self.down(x))
        x = F.dropout1d(x, 0.2)
        return F.elu(self.deeper(x))

    def forward(self, x):
        return self.out(F.elu(self.up(self.encode(x))))


def signals(n):
    phase = torch.rand(n, 1, 1) * 6.28
    rate = torch.rand(n, 1, 1) * 4 + 1
    return torch.sin(rate * torch.linspace(0, 6.28, 64) + phase)


torch.manual_seed(2)
model = Denoiser()
optimizer = torch.optim.Adamax(model.parameters(), lr=4e-3)
held = signals(64)
for epoch in range(8):
    model.train()
    for _ in range(15):
        x = signals(32)
        loss = F.smooth_l1_loss(model(x), x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        scores = (model(held) - held).abs().mean((1, 2))
    print(epoch, loss.item(), scores.mean().item(), scores.std().item())
