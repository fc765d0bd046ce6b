import copy
import math
import torch
from torch import nn


class Score(nn.Module):
    def __init__(self):
        super().__init__()
        self.time = nn.Linear(16, 64)
        self.inp = nn.Linear(2, 64)
        self.mid = nn.Linear(64, 64)
        self.out = nn.Linear(64, 2)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(self, x, t):
        f = t[:, None] * torch.arange(1, 9) * math.pi
        h = nn.functional.silu(self.inp(x) + self.time(torch.cat([f.sin(), f.cos()], 1)))
        return self.out(nn.functional.silu(self.mid(h)))


torch.manual_seed(402)
net = Score()
ema = copy.deepcopy(net).eval().requires_grad_(False)
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
for step in range(200):
    a = torch.rand(128) * 6.28
    x0 = torch.stack([a.cos(), a.sin()], 1)
    t = torch.rand(128)
    sigma = (0.02 + t)[:, None]
    eps = torch.randn_like(x0)
    loss = ((net(x0 + sigma * eps, t) - eps) ** 2).mean()
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    opt.step()
    with torch.no_grad():
        for e, p in zip(ema.parameters(), net.parameters()):
            e.mul_(0.98).add_(p, alpha=0.02)
    if step % 50 == 0:
        print(step, loss.item(), ema(x0, t).norm().item())
