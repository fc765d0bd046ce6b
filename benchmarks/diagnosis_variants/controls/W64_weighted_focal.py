"""Rare classes: weights in the loss, label smoothing, and a focal term."""
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(164)
share = torch.tensor([0.9, 0.07, 0.03])
weight = (1 / share) / (1 / share).sum()
centres = torch.randn(3, 8) * 1.5


def sample(n=96):
    y = torch.multinomial(share, n, replacement=True)
    return centres[y] + torch.randn(n, 8), y


def objective(logits, y, gamma=1.0):
    plain = F.cross_entropy(logits, y, weight=weight, label_smoothing=0.1, reduction="none")
    sure = logits.softmax(-1).gather(1, y[:, None])[:, 0]
    return ((1 - sure) ** gamma * plain).mean()


net = nn.Sequential(nn.Linear(8, 32), nn.Hardswish(), nn.Linear(32, 3))
opt = torch.optim.AdamW(net.parameters(), lr=5e-3)
for step in range(150):
    x, y = sample()
    loss = objective(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
x, y = sample(1000)
print(loss.item(), [(net(x)[y == c].argmax(1) == c).float().mean().item() for c in range(3)])
