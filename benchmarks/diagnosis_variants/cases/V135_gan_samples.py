import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(305)


def make_generator():
    return nn.Sequential(nn.Linear(8, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 2))


def make_discriminator():
    return nn.Sequential(nn.Linear(2, 64), nn.LeakyReLU(0.2), nn.Linear(64, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1))


class Trainer:
    def __init__(self):
        self.G, self.D = make_generator(), make_discriminator()
        self.g_opt = torch.optim.Adam(self.G.parameters(), lr=2e-4, betas=(0.5, 0.99))
        self.d_opt = torch.optim.Adam(self.D.parameters(), lr=2e-4, betas=(0.5, 0.99))
        self.fixed = torch.randn(64, 8)

    def real(self, n):
        angle = torch.rand(n) * 6.28
        return torch.stack([angle.cos(), angle.sin()], 1) * 2 + 0.1 * torch.randn(n, 2)

    @torch.no_grad()
    def show(self, it):
        self.G.eval()
        picture = self.G(self.fixed)
        print(it, "radius", picture.norm(dim=1).mean().item())

    def fit(self, iterations):
        for it in range(iterations):
            if it % 40 == 0:
                self.show(it)
            real, noise = self.real(64), torch.randn(64, 8)
            fake = self.G(noise)
            d_loss = F.softplus(-self.D(real)).mean() + F.softplus(self.D(fake.detach())).mean()
            self.d_opt.zero_grad()
            d_loss.backward()
            self.d_opt.step()
            g_loss = F.softplus(-self.D(fake)).mean()
            self.g_opt.zero_grad()
            g_loss.backward()
            self.g_opt.step()


Trainer().fit(200)
