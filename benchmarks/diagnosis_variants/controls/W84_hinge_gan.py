import torch
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm as sn

torch.manual_seed(401)
G = nn.Sequential(nn.Linear(8, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 2))
D = nn.Sequential(sn(nn.Linear(2, 64)), nn.LeakyReLU(0.2), sn(nn.Linear(64, 64)), nn.LeakyReLU(0.2), sn(nn.Linear(64, 1)))
g_opt = torch.optim.Adam(G.parameters(), 1e-3, betas=(0.0, 0.9))
d_opt = torch.optim.Adam(D.parameters(), 1e-3, betas=(0.0, 0.9))


@torch.no_grad()
def show(it):
    G.eval()
    print(it, G(torch.randn(64, 8)).norm(dim=1).mean().item())
    G.train()


for it in range(120):
    for _ in range(2):
        angle = torch.rand(64) * 6.28
        real = torch.stack([angle.cos(), angle.sin()], 1)
        with torch.no_grad():
            fake = G(torch.randn(64, 8))
        loss = torch.relu(1 - D(real)).mean() + torch.relu(1 + D(fake)).mean()
        d_opt.zero_grad()
        loss.backward()
        d_opt.step()
    D.requires_grad_(False)
    loss = -D(G(torch.randn(64, 8))).mean()
    g_opt.zero_grad()
    loss.backward()
    g_opt.step()
    D.requires_grad_(True)
    if it % 30 == 0:
        show(it)
