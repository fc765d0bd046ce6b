import torch
from torch import nn

torch.manual_seed(35)
trunk = nn.Sequential(nn.Linear(10, 32), nn.Tanh())
head = nn.Linear(32, 1)
net = nn.Sequential(trunk, head)
opt = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.95, weight_decay=1e-3)
for step in range(160):
    if step == 40:
        for p in trunk.parameters():
            p.requires_grad_(False)
    x = torch.randn(32, 10)
    loss = nn.functional.mse_loss(net(x), x[:, :1] * 2)
    opt.zero_grad(set_to_none=False)
    loss.backward()
    opt.step()
    if step % 40 == 0:
        print(step, loss.item())
