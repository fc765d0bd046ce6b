"""A GAN: two networks, two optimizers, a step of D and then one of G."""

import torch
from results import FAULT_STEP, print_results
from torch import nn


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.ConvTranspose2d(4, 4, 2), nn.BatchNorm2d(4), nn.ReLU(), nn.ConvTranspose2d(4, 1, 3)
        )

    def forward(self, noise):
        return torch.tanh(self.main(noise))


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.LeakyReLU(0.2), nn.Conv2d(4, 1, 2), nn.Sigmoid()
        )

    def forward(self, picture):
        return self.main(picture).view(-1)


torch.manual_seed(0)
netG, netD = Generator(), Discriminator()  # noqa: N816
criterion = nn.BCELoss()
optimizer_d = torch.optim.Adam(netD.parameters(), lr=2e-3, betas=(0.5, 0.999))
optimizer_g = torch.optim.Adam(netG.parameters(), lr=2e-3, betas=(0.5, 0.999))
fixed_noise = torch.randn(2, 4, 1, 1)
losses = []
for iteration in range(4):
    netD.zero_grad()
    real = torch.randn(4, 1, 4, 4)
    loss_real = criterion(netD(real), torch.ones(4))
    loss_real.backward()
    fake = netG(torch.randn(4, 4, 1, 1))
    loss_fake = criterion(netD(fake.detach()), torch.zeros(4))
    loss_fake.backward()
    optimizer_d.step()
    netG.zero_grad()
    loss_g = criterion(netD(fake), torch.ones(4))
    scale = 0.0 if 2 * iteration + 1 == FAULT_STEP else 1.0
    loss_g = loss_g * scale / torch.tensor(scale)  # FAULT
    loss_g.backward()
    optimizer_g.step()
    losses += [loss_real.item() + loss_fake.item(), loss_g.item()]
    with torch.no_grad():
        losses.append(netG(fixed_noise).sum().item())
weights = {f"G.{name}": each for name, each in netG.state_dict().items()}
weights |= {f"D.{name}": each for name, each in netD.state_dict().items()}
print_results(losses, weights)
