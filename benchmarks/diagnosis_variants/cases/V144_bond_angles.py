import torch
from torch import nn


def angle(u, v):
    norm = u.norm(dim=-1) * v.norm(dim=-1)
    cos = (u * v).sum(-1) / norm
    return torch.where(norm > 1e-6, torch.acos(cos * 0.999), torch.zeros_like(norm))


class Folder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(5, 64), nn.SiLU(), nn.Linear(64, 12))

    def forward(self, code, present):
        points = self.net(code).view(-1, 4, 3)
        return points * present[..., None]


torch.manual_seed(314)
folder = Folder()
opt = torch.optim.Adam(folder.parameters(), 2e-3)
for step in range(60):
    code = torch.randn(32, 5)
    present = torch.ones(32, 4)
    if step >= 10:
        present[:6, 3] = 0
    points = folder(code, present)
    bonds = points[:, 1:] * present[:, 1:, None]
    theta = angle(bonds[:, :-1], bonds[:, 1:])
    loss = (theta - code[:, :2].sigmoid() * 2).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 10 == 0:
        print(step, loss.item())
