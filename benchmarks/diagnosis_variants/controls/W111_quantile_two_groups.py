import torch
from torch import nn

QUANTILES = torch.tensor([0.1, 0.5, 0.9])


def pinball(pred, y):
    diff = y.unsqueeze(1) - pred
    return torch.maximum(QUANTILES * diff, (QUANTILES - 1) * diff).mean()


torch.manual_seed(5)
net = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 3))
groups = [{"params": net[0].parameters(), "lr": 1e-3}, {"params": net[2].parameters(), "lr": 1e-2, "weight_decay": 0.0}]
opt = torch.optim.AdamW(groups, weight_decay=0.05)
for step in range(200):
    x = torch.rand(64, 6)
    y = x.sum(1) + torch.randn(64) * x[:, 0]
    loss = pinball(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 40 == 0:
        print(step, loss.item())
