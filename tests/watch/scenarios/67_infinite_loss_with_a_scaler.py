import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
for step in range(4):
    optimizer.zero_grad()
    penalty = torch.tensor(3e38 if step == 2 else 1.0) * 10
    loss = net(torch.randn(8, 8)).pow(2).mean() + penalty
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
