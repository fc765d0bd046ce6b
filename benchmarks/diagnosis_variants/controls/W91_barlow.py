import torch
from torch import nn

torch.manual_seed(408)
encoder = nn.Sequential(nn.Conv1d(1, 16, 5, stride=2), nn.BatchNorm1d(16), nn.ReLU(), nn.Conv1d(16, 32, 5, stride=2), nn.ReLU(), nn.AdaptiveMaxPool1d(1), nn.Flatten())
projector = nn.Sequential(nn.Linear(32, 64, bias=False), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 32))
opt = torch.optim.SGD([*encoder.parameters(), *projector.parameters()], lr=0.02, momentum=0.9, weight_decay=1e-4)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 100)


def view(x):
    return x * (0.7 + 0.6 * torch.rand(len(x), 1, 1)) + 0.1 * torch.randn_like(x)


for step in range(100):
    base = torch.sin(torch.linspace(0, 10, 64) * (1 + 2 * torch.rand(64, 1)) + 6 * torch.rand(64, 1))[:, None]
    a, b = projector(encoder(view(base))), projector(encoder(view(base)))
    a = (a - a.mean(0)) / (a.std(0) + 1e-5)
    b = (b - b.mean(0)) / (b.std(0) + 1e-5)
    c = a.t() @ b / len(a)
    on = (torch.diagonal(c) - 1).square().sum()
    off = c.square().sum() - torch.diagonal(c).square().sum()
    loss = on + 5e-3 * off
    opt.zero_grad()
    loss.backward()
    opt.step()
    sched.step()
    if step % 20 == 0:
        print(step, loss.item())
