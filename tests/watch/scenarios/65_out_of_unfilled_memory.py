import torch
from torch import nn

torch.manual_seed(0)
unfilled = torch.empty(6, 4)
unfilled.fill_(float("nan"))  # As the allocator may give it.
kept = torch.full((4, 4), float("nan"))
net = nn.Linear(4, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(3):
    x = torch.randn(3, 4)
    optimizer.zero_grad()
    loss = net(x).pow(2).mean()
    loss.backward()
    with torch.no_grad():
        # Gradients are collected in parts of one buffer, as DistributedDataParallel does.
        torch.mul(net.weight.grad, 0.5, out=unfilled[:4])
        torch.mul(net.bias.grad, 0.5, out=unfilled[4])
        kept.copy_(unfilled[:4])
        net.weight.grad.copy_(kept)
    optimizer.step()
    print("step", step, "loss", float(loss.detach()))
