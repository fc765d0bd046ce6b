import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 24), nn.Tanh(), nn.Linear(24, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
truth = torch.randn(6, 1)
for step in range(100):
    x = torch.randn(128, 6)
    y = x @ truth
    loss = ((net(x) - y) ** 2).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item() / 128)
