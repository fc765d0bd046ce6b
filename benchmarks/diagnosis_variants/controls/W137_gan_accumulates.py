"""WGAN with five critic steps, each cleared, and gradient penalty with create_graph."""
import torch
from torch import nn

torch.manual_seed(0)
G = nn.Sequential(nn.Linear(6, 48), nn.ReLU(), nn.Linear(48, 2))
D = nn.Sequential(nn.Linear(2, 48), nn.LeakyReLU(0.2), nn.Linear(48, 1))
og = torch.optim.Adam(G.parameters(), lr=1e-3, betas=(0.0, 0.9))
od = torch.optim.Adam(D.parameters(), lr=1e-3, betas=(0.0, 0.9))
for step in range(40):
    for _ in range(5):
        real = torch.randn(64, 2) * torch.tensor([1.0, 0.2]) + 1
        with torch.no_grad():
            fake = G(torch.randn(64, 6))
        mix = torch.lerp(real, fake, torch.rand(64, 1)).requires_grad_()
        (slope,) = torch.autograd.grad(D(mix).sum(), mix, create_graph=True)
        penalty = ((slope.norm(dim=1) - 1) ** 2).mean()
        loss = D(fake).mean() - D(real).mean() + 10 * penalty
        od.zero_grad()
        loss.backward()
        od.step()
    D.requires_grad_(False)
    og.zero_grad()
    (-D(G(torch.randn(64, 6))).mean()).backward()
    og.step()
    D.requires_grad_(True)
    if step % 10 == 0:
        print(step, loss.item())
