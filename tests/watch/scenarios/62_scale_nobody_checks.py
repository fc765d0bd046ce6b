import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
scale = 2.0**26
for step in range(3):
    x = torch.randn(16, 8) * 10
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = net(x).pow(2).mean()
    (loss.float() * scale).backward()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.grad.div_(scale)
    optimizer.step()
    print("step", step, "loss", float(loss.detach()))
