"""A GAN for a ring of Gaussians."""
import math

import torch
import torch.nn.functional as F
from torch import nn


def ring(n):
    angle = torch.randint(0, 8, (n,)) * (2 * math.pi / 8)
    return torch.stack([angle.cos(), angle.sin()], 1) * 2 + 0.05 * torch.randn(n, 2)


generator = nn.Sequential(nn.Linear(8, 64), nn.LeakyReLU(0.2), nn.Linear(64, 64), nn.LeakyReLU(0.2), nn.Linear(64, 2))
discriminator = nn.Sequential(nn.Linear(2, 64), nn.LeakyReLU(0.2), nn.Linear(64, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1))
opt_g = torch.optim.Adam(generator.parameters(), lr=5e-4, betas=(0.5, 0.99))
opt_d = torch.optim.Adam(discriminator.parameters(), lr=5e-4, betas=(0.5, 0.99))
torch.manual_seed(0)

for step in range(200):
    real = ring(64)
    fake = generator(torch.randn(64, 8))
    d_loss = F.softplus(-discriminator(real)).mean() + F.softplus(discriminator(fake.detach())).mean()
    d_loss.backward()
    opt_d.step()

    g_loss = F.softplus(-discriminator(generator(torch.randn(64, 8)))).mean()
    opt_g.zero_grad()
    g_loss.backward()
    opt_g.step()
    if step % 40 == 0:
        print(step, d_loss.item(), g_loss.item())
