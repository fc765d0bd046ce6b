import copy
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(601)
q = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 12))
k = copy.deepcopy(q).requires_grad_(False)
queue = F.normalize(torch.randn(128, 12), dim=1)
opt = torch.optim.SGD(q.parameters(), lr=0.05, momentum=0.9)
for step in range(120):
    x = torch.randn(32, 16)
    a = F.normalize(q(x + 0.1 * torch.randn_like(x)), dim=1)
    with torch.no_grad():
        for mine, theirs in zip(k.parameters(), q.parameters()):
            mine.mul_(0.99).add_(theirs, alpha=0.01)
        b = F.normalize(k(x + 0.1 * torch.randn_like(x)), dim=1)
    logits = torch.cat([(a * b).sum(1, keepdim=True), a @ queue.t()], 1) / 0.2
    loss = F.cross_entropy(logits, torch.zeros(32, dtype=torch.long))
    opt.zero_grad()
    loss.backward()
    opt.step()
    queue = torch.cat([queue[32:], b])
    if step % 30 == 0:
        print(step, loss.item())
