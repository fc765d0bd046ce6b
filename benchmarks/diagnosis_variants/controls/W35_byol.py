import copy

import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
online = nn.Sequential(nn.Linear(12, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 8))
target = copy.deepcopy(online).requires_grad_(False)
predictor = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 8))
optimizer = torch.optim.SGD([*online.parameters(), *predictor.parameters()], lr=0.05, momentum=0.9, weight_decay=1e-4)
for step in range(100):
    x = torch.randn(64, 12)
    a, b = (x + 0.2 * torch.randn_like(x) for _ in range(2))
    loss = 0.0
    for one, two in ((a, b), (b, a)):
        with torch.no_grad():
            wanted = target(two)
        loss = loss + 2 - 2 * F.cosine_similarity(predictor(online(one)), wanted).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for mean, current in zip(target.parameters(), online.parameters()):
            mean.lerp_(current, 0.01)
print(loss.item())
