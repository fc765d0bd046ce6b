"""Schedules counted in steps on purpose: milestones, exponential decay, a cosine over all steps."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(27)
x = torch.randn(320, 6)
loader = DataLoader(TensorDataset(x, x[:, :1] * x[:, 1:2]), batch_size=16, shuffle=True)
steps = 10 * len(loader)
plans = (
    lambda o: torch.optim.lr_scheduler.MultiStepLR(o, [int(0.5 * steps), int(0.75 * steps)]),
    lambda o: torch.optim.lr_scheduler.ExponentialLR(o, 0.99),
    lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, T_max=steps),
    lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda s: min(1.0, s / 20) * (1 - s / steps)),
)
for plan in plans:
    net = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 1))
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    scheduler = plan(opt)
    for epoch in range(10):
        for bx, by in loader:
            loss = nn.functional.mse_loss(net(bx), by)
            opt.zero_grad()
            loss.backward()
            opt.step()
            scheduler.step()
    print(loss.item())
