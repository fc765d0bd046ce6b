import torch
from torch import nn
import torch.nn.functional as F


class Disc(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2, 48), nn.LeakyReLU(0.2))
        self.top = nn.Linear(49, 1)

    def forward(self, x):
        h = self.body(x)
        spread = (h.var(0, unbiased=False) + 1e-8).sqrt().mean().expand(len(h), 1)
        return self.top(torch.cat([h, spread], 1))


torch.manual_seed(603)
G, D = nn.Sequential(nn.Linear(6, 48), nn.ReLU(), nn.Linear(48, 2)), Disc()
og = torch.optim.Adam(G.parameters(), 1e-3, betas=(0.5, 0.9))
od = torch.optim.Adam(D.parameters(), 1e-3, betas=(0.5, 0.9))
for it in range(120):
    real = torch.randn(64, 2) * torch.tensor([1.0, 0.3]) + 1
    fake = G(torch.randn(64, 6))
    d = F.softplus(-D(real)).mean() + F.softplus(D(fake.detach())).mean()
    if it % 4 == 0:
        probe = real.clone().requires_grad_(True)
        g, = torch.autograd.grad(D(probe).sum(), probe, create_graph=True)
        d = d + g.square().sum(1).mean()
    od.zero_grad()
    d.backward()
    od.step()
    g = F.softplus(-D(fake)).mean()
    og.zero_grad()
    g.backward()
    og.step()
    if it % 30 == 0:
        print(it, d.item(), g.item())
