import copy

import torch
from torch import nn
import torch.nn.functional as F


def mlp(i, o):
    return nn.Sequential(nn.Linear(i, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, o))


class BYOL(nn.Module):
    def __init__(self):
        super().__init__()
        self.online = mlp(24, 16)
        self.predictor = mlp(16, 16)
        self.target = copy.deepcopy(self.online).requires_grad_(False)

    def loss(self, a, b):
        p = F.normalize(self.predictor(self.online(a)), dim=1)
        with torch.no_grad():
            t = F.normalize(self.target(b), dim=1)
        return 2 - 2 * (p * t).sum(1).mean()

    @torch.no_grad()
    def follow(self, tau=0.98):
        for o, t in zip(self.online.parameters(), self.target.parameters()):
            t.lerp_(o, 1 - tau)


torch.manual_seed(1)
base = torch.randn(512, 24)
learner = BYOL()
opt = torch.optim.AdamW([p for p in learner.parameters() if p.requires_grad], lr=1e-3, weight_decay=1e-2)
for step in range(150):
    x = base[torch.randint(0, 512, (96,))]
    a, b = x + 0.3 * torch.randn_like(x), x + 0.3 * torch.randn_like(x)
    loss = learner.loss(a, b) + learner.loss(b, a)
    opt.zero_grad()
    loss.backward()
    opt.step()
    learner.follow()
    if step % 30 == 0:
        print(step, loss.item())
