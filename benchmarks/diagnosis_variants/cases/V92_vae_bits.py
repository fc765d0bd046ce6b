import torch
import torch.nn as nn
import torch.nn.functional as F


class VAE(nn.Module):
    def __init__(self, size=36, hidden=64, z=6):
        super().__init__()
        self.enc = nn.Linear(size, hidden)
        self.mu = nn.Linear(hidden, z)
        self.logvar = nn.Linear(hidden, z)
        self.dec1 = nn.Linear(z, hidden)
        self.dec2 = nn.Linear(hidden, size)

    def encode(self, x):
        h = F.relu(self.enc(x))
        return self.mu(h), self.logvar(h)

    def decode(self, z):
        h = F.relu(self.dec1(z))
        return F.relu(self.dec2(h))

    def forward(self, x):
        mu, logvar = self.encode(x)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        return self.decode(z), mu, logvar


def glyphs(n):
    proto = (torch.rand(6, 36, generator=torch.Generator().manual_seed(5)) > 0.75).float()
    x = proto[torch.randint(0, 6, (n,))]
    flip = torch.rand_like(x) < 0.03
    return torch.where(flip, 1 - x, x)


torch.manual_seed(92)
vae = VAE()
optim = torch.optim.Adam(vae.parameters(), 2e-3)
for it in range(200):
    x = glyphs(50)
    recon, mu, logvar = vae(x)
    bce = F.binary_cross_entropy_with_logits(recon, x, reduction="none").sum(1).mean()
    kld = -0.5 * (1 + logvar - mu**2 - logvar.exp()).sum(1).mean()
    elbo = bce + 0.1 * kld
    optim.zero_grad()
    elbo.backward()
    optim.step()
    if it % 50 == 0:
        print(it, bce.item(), kld.item())
