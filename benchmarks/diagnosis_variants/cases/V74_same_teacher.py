import torch
from torch import nn
import torch.nn.functional as F


class BYOL(nn.Module):
    def __init__(self, online):
        super().__init__()
        self.online = online
        self.target = online
        self.predictor = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8))

    @torch.no_grad()
    def update_target(self, tau=0.99):
        for target, online in zip(self.target.parameters(), self.online.parameters()):
            target.mul_(tau).add_(online, alpha=1 - tau)

    def forward(self, a, b):
        guess = F.normalize(self.predictor(self.online(a)), dim=1)
        with torch.no_grad():
            wanted = F.normalize(self.target(b), dim=1)
        return (2 - 2 * (guess * wanted).sum(1)).mean()


torch.manual_seed(0)
byol = BYOL(nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 8)))
optimizer = torch.optim.Adam(byol.parameters(), lr=1e-3)
for step in range(80):
    x = torch.randn(32, 12)
    loss = byol(x + 0.1 * torch.randn_like(x), x + 0.1 * torch.randn_like(x))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    byol.update_target()
print(loss.item())
