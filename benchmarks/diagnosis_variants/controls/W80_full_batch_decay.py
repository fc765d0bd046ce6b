"""Full batches: a step is an epoch, and the rate of a long training falls far."""
import torch
from torch import nn

torch.manual_seed(28)
x = torch.linspace(-1, 1, 64)[:, None]
y = torch.sin(4 * x)
net = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
scheduler = torch.optim.lr_scheduler.ExponentialLR(opt, 0.985)
for epoch in range(900):
    loss = nn.functional.mse_loss(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    scheduler.step()
    if epoch % 200 == 0:
        print(epoch, loss.item())
