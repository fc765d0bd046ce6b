import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(10)
G = nn.Sequential(nn.Linear(4, 32), nn.LeakyReLU(0.2), nn.Linear(32, 2))
D = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
og = torch.optim.Adam(G.parameters(), 2e-3, betas=(0.0, 0.99))
od = torch.optim.Adam(D.parameters(), 2e-3, betas=(0.0, 0.99))
for step in range(120):
    D.requires_grad_(True)
    real = torch.randn(64, 2) * 0.1 + torch.tensor([2.0, -1.0])
    real.requires_grad_()
    score = D(real)
    (g,) = torch.autograd.grad(score.sum(), real, create_graph=True)
    loss_d = F.softplus(-score).mean() + F.softplus(D(G(torch.randn(64, 4)).detach())).mean()
    if step % 8 == 0:
        loss_d = loss_d + 5 * g.square().sum(1).mean()
    od.zero_grad()
    loss_d.backward()
    od.step()
    if step % 2:
        D.requires_grad_(False)
        loss_g = F.softplus(-D(G(torch.randn(64, 4)))).mean()
        og.zero_grad()
        loss_g.backward()
        og.step()
        if step % 20 == 1:
            print(step, loss_d.item(), loss_g.item())
