"""bfloat16 weights at a low rate, with float32 master copies that are cast back after each step."""
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(12, 64), nn.GELU(), nn.Linear(64, 1)).to(torch.bfloat16)
master = [p.detach().float().requires_grad_() for p in net.parameters()]
optimizer = torch.optim.Adam(master, lr=1e-4)
for step in range(120):
    x = torch.randn(64, 12)
    out = net(x.bfloat16()).float().squeeze(1)
    loss = (out - x[:, 0] * 2).square().mean()
    net.zero_grad()
    loss.backward()
    for m, p in zip(master, net.parameters()):
        m.grad = p.grad.float()
    optimizer.step()
    with torch.no_grad():
        for m, p in zip(master, net.parameters()):
            p.copy_(m)
    if step % 30 == 0:
        print(step, loss.item())
