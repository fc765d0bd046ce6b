import torch
from torch import nn

torch.manual_seed(40)
net = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 3))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
y = torch.randint(0, 3, (384,))
x = torch.randn(3, 16)[y] + torch.randn(384, 16)
for epoch in range(4):
    for i in torch.randperm(384).split(32):
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.cross_entropy(net(x[i]), y[i])
        scaler.scale(loss).backward()
        torch.nn.utils.clip_grad_value_(net.parameters(), 0.5)
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    print(epoch, loss.item())
