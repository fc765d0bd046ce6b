import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127)
for step in range(4):
    optimizer.zero_grad()
    loss = net(torch.randn(8, 8)).pow(2).mean() * 1e3
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    print("step", step, "loss", float(loss.detach()), "scale", scaler.get_scale())
