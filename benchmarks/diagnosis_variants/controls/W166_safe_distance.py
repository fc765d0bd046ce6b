import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
for step in range(80):
    y = torch.randint(0, 3, (24,))
    x = torch.randn(24, 8) + y[:, None]
    z = net(x)
    squares = (z[:, None] - z).square().sum(-1)
    positive = squares > 0
    d = torch.where(positive, torch.where(positive, squares, 1.0).sqrt(), 0.0)
    same = y[:, None] == y
    loss = (d.masked_fill(~same, 0).amax(1) - d.masked_fill(same, 1e3).amin(1) + 0.5).relu().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
