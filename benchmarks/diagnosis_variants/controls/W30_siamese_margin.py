import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
tower = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 8))
optimizer = torch.optim.Adam(tower.parameters(), lr=5e-3)
centres = torch.randn(4, 12) * 4
for step in range(200):
    kind = torch.randint(0, 4, (32,))
    other = torch.where(torch.rand(32) < 0.5, kind, (kind + 1) % 4)
    a = tower(centres[kind] + 0.1 * torch.randn(32, 12))
    b = tower(centres[other] + 0.1 * torch.randn(32, 12))
    distance = F.pairwise_distance(a, b)
    same = (kind == other).float()
    loss = (same * distance.pow(2) + (1 - same) * F.relu(1.0 - distance).pow(2)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
