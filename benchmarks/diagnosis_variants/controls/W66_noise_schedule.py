"""Diffusion with time embeddings, a zero-initialised output and classifier-free guidance."""
import math

import torch
from torch import nn


class Denoiser(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(16, width), nn.SiLU(), nn.Linear(width, width))
        self.label = nn.Embedding(5, width)
        self.inp = nn.Linear(2, width)
        self.mid = nn.ModuleList([nn.Linear(width, width) for _ in range(3)])
        self.out = nn.Linear(width, 2)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(self, x, t, label):
        freq = torch.exp(torch.arange(8) * (-math.log(1000) / 8))
        wave = t[:, None] * freq
        h = self.inp(x) + self.time(torch.cat([wave.sin(), wave.cos()], 1)) + self.label(label)
        for layer in self.mid:
            h = h + layer(torch.nn.functional.silu(h))
        return self.out(h)


torch.manual_seed(166)
T = 100
alpha = torch.cumprod(1 - torch.linspace(1e-4, 0.05, T), 0)
net = Denoiser()
opt = torch.optim.AdamW(net.parameters(), lr=2e-3)
for step in range(200):
    label = torch.randint(0, 4, (64,))
    angle = label * math.pi / 2
    x = torch.stack([angle.cos(), angle.sin()], 1) + 0.05 * torch.randn(64, 2)
    t = torch.randint(0, T, (64,))
    noise = torch.randn_like(x)
    a = alpha[t][:, None]
    dropped = torch.where(torch.rand(64) < 0.1, 4, label)
    loss = (net(a.sqrt() * x + (1 - a).sqrt() * noise, t.float(), dropped) - noise).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 50 == 0:
        print(step, loss.item())
