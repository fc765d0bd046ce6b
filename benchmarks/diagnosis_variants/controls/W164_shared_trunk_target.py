import copy

import torch
from torch import nn

torch.manual_seed(0)
trunk = nn.Sequential(nn.Linear(6, 32), nn.ReLU()).requires_grad_(False)
head = nn.Linear(32, 3)
head_target = copy.deepcopy(head)
optimizer = torch.optim.Adam(head.parameters(), lr=2e-3)
for step in range(100):
    s, n = torch.randn(64, 6), torch.randn(64, 6)
    with torch.no_grad():
        goal = (s[:, 0] > 0).float() + 0.9 * head_target(trunk(n)).amax(1)
    loss = nn.functional.mse_loss(head(trunk(s)).amax(1), goal)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for t, h in zip(head_target.parameters(), head.parameters()):
            t.lerp_(h, 0.05)
print(loss.item())
