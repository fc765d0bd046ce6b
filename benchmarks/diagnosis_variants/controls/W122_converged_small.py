"""A linear fit that reaches its minimum early and goes on; then the rate is 0 for a while."""
import torch
from torch import nn

torch.manual_seed(16)
a = torch.randn(5, 1)
fit = nn.Linear(5, 1)
opt = torch.optim.SGD(fit.parameters(), lr=0.1)
x = torch.randn(100, 5)
for step in range(400):
    if step == 300:
        for g in opt.param_groups:
            g["lr"] = 0.0
    loss = ((fit(x) - x @ a - 1.5) ** 2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 50 == 0:
        print(step, loss.item())
