"""GAN trainer: both zero_grad calls go to the discriminator."""
import torch
import torch.nn.functional as F
from torch import nn


class RingGAN:
    def __init__(self, latent=6, hidden=48):
        self.latent = latent
        self.g = nn.Sequential(nn.Linear(latent, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 2))
        self.d = nn.Sequential(nn.Linear(2, hidden), nn.LeakyReLU(0.2), nn.Linear(hidden, hidden), nn.LeakyReLU(0.2), nn.Linear(hidden, 1))
        self.opt_g = torch.optim.Adam(self.g.parameters(), lr=1e-3, betas=(0.5, 0.99))
        self.opt_d = torch.optim.Adam(self.d.parameters(), lr=1e-3, betas=(0.5, 0.99))

    def real(self, n):
        angle = torch.rand(n) * 6.2832
        return torch.stack([angle.cos(), angle.sin()], 1) + 0.05 * torch.randn(n, 2)

    def d_step(self, n=64):
        self.opt_d.zero_grad()
        fake = self.g(torch.randn(n, self.latent)).detach()
        loss = F.softplus(-self.d(self.real(n))).mean() + F.softplus(self.d(fake)).mean()
        loss.backward()
        self.opt_d.step()
        return loss.item()

    def g_step(self, n=64):
        self.opt_d.zero_grad()
        loss = F.softplus(-self.d(self.g(torch.randn(n, self.latent)))).mean()
        loss.backward()
        self.opt_g.step()
        return loss.item()


torch.manual_seed(3)
gan = RingGAN()
for it in range(150):
    d, g = gan.d_step(), gan.g_step()
    if it % 30 == 0:
        print(f"{it:4d} d {d:.3f} g {g:.3f}")
