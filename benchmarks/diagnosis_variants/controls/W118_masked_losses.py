"""Multi-task with missing labels: some tasks have no label in a batch, which is asked for."""
import torch
from torch import nn

torch.manual_seed(12)
trunk = nn.Sequential(nn.Linear(10, 32), nn.ReLU())
heads = nn.ModuleDict({name: nn.Linear(32, 1) for name in ("logp", "toxic", "soluble")})
opt = torch.optim.Adam([*trunk.parameters(), *heads.parameters()], lr=2e-3)
for step in range(150):
    x = torch.randn(16, 10)
    h = trunk(x)
    total = x.new_zeros(())
    for i, (name, head) in enumerate(heads.items()):
        y = x[:, i] * 2 + 0.1
        have = torch.rand(16) < (0.9, 0.4, 0.05)[i]
        if not have.any():
            continue
        total = total + nn.functional.mse_loss(head(h).squeeze(1)[have], y[have])
    opt.zero_grad()
    total.backward()
    opt.step()
    if step % 30 == 0:
        print(step, total.item())
