"""Double DQN on a toy chain with a copied target network and a hard update."""
import copy

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
online = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
target = copy.deepcopy(online).eval().requires_grad_(False)
optimizer = torch.optim.Adam(online.parameters(), lr=2e-3)
memory_s = torch.randn(500, 4)
memory_a = torch.randint(0, 2, (500,))
memory_r = torch.where(memory_a == (memory_s[:, 0] > 0), 1.0, 0.0)
memory_n = memory_s + 0.1 * torch.randn(500, 4)
for step in range(150):
    i = torch.randint(0, 500, (64,))
    with torch.no_grad():
        best = online(memory_n[i]).argmax(1, keepdim=True)
        goal = memory_r[i] + 0.9 * target(memory_n[i]).gather(1, best).squeeze(1)
    q = online(memory_s[i]).gather(1, memory_a[i, None]).squeeze(1)
    loss = F.smooth_l1_loss(q, goal)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_value_(online.parameters(), 1.0)
    optimizer.step()
    if step % 25 == 24:
        target.load_state_dict(online.state_dict())
        print(step, loss.item())
