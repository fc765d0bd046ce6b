import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(55)
encoder = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 24))
optimizer = torch.optim.Adam(encoder.parameters(), lr=1e-3)
base = torch.randn(600, 16)
for step in range(60):
    x = base[torch.randint(0, 600, (48,))]
    views = torch.cat([x + 0.1 * torch.randn_like(x), x + 0.1 * torch.randn_like(x)])
    z = F.normalize(encoder(views), dim=1)
    similarity = z @ z.t() / 0.2
    similarity = similarity.masked_fill(torch.eye(96, dtype=torch.bool), float("-inf"))
    target = torch.cat([torch.arange(48) + 48, torch.arange(48)])
    loss = F.cross_entropy(similarity, target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
