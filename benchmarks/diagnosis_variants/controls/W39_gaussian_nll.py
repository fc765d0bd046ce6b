import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 32), nn.SiLU(), nn.Linear(32, 2))
optimizer = torch.optim.RAdam(net.parameters(), lr=5e-3)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=250)
for step in range(250):
    x = torch.randn(64, 3)
    y = x.sum(1) + 0.01 * torch.randn(64)
    mean, log_var = net(x).unbind(1)
    loss = nn.functional.gaussian_nll_loss(mean, y, log_var.exp())
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()
    scheduler.step()
print(loss.item())
