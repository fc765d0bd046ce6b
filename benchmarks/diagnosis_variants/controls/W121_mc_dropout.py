"""Dropout stays on for the estimate of the uncertainty, in train mode, as is documented."""
import torch
from torch import nn

torch.manual_seed(15)
net = nn.Sequential(nn.Linear(1, 50), nn.ReLU(), nn.Dropout(0.2), nn.Linear(50, 50), nn.ReLU(), nn.Dropout(0.2), nn.Linear(50, 1))
opt = torch.optim.Rprop(net.parameters(), lr=1e-3)
x = torch.linspace(-2, 2, 200)[:, None]
y = x.pow(3) / 3 + 0.1 * torch.randn_like(x)
for epoch in range(120):
    loss = nn.functional.mse_loss(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if epoch % 30 == 0:
        net.eval()
        for m in net.modules():
            if isinstance(m, nn.Dropout):
                m.train()
        with torch.no_grad():
            draws = torch.stack([net(x) for _ in range(10)])
        net.train()
        print(epoch, loss.item(), draws.std(0).mean().item())
