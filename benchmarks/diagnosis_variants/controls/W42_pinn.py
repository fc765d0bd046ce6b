import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
for step in range(120):
    t = torch.rand(64, 1, requires_grad=True)
    u = net(t)
    du = torch.autograd.grad(u.sum(), t, create_graph=True)[0]
    start = net(torch.zeros(1, 1)) - 1
    loss = (du + 2 * u).pow(2).mean() + start.pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
