import torch
from torch import nn
from torch.nn import functional as F


class VAE(nn.Module):
    def __init__(self, inputs=20, hidden=32, latent=4):
        super().__init__()
        self.enc = nn.Linear(inputs, hidden)
        self.mu, self.logvar = nn.Linear(hidden, latent), nn.Linear(hidden, latent)
        self.dec = nn.Sequential(nn.Linear(latent, hidden), nn.SiLU(), nn.Linear(hidden, inputs))

    def forward(self, x):
        h = F.silu(self.enc(x))
        mu, logvar = self.mu(h), self.logvar(h)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
        return self.dec(z), mu, logvar


def build():
    vae = VAE()
    optimizer = torch.optim.RMSprop(vae.parameters(), lr=1e-3)
    vae.dec = nn.Sequential(nn.Linear(4, 64), nn.GELU(), nn.Linear(64, 20))
    return vae, optimizer


torch.manual_seed(3)
vae, optimizer = build()
basis = torch.randn(4, 20)
for step in range(100):
    x = torch.randn(32, 4) @ basis
    rebuilt, mu, logvar = vae(x)
    kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1).mean()
    loss = F.mse_loss(rebuilt, x) + 0.01 * kl
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
