"""Trains for a while, prints when it is half-way, and continues when it gets a line of input."""

import sys

import torch

steps = int(sys.argv[1])
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(steps):
    optimizer.zero_grad()
    loss = net(torch.randn(16, 64)).square().mean()
    loss.backward()
    optimizer.step()
    print(loss.item())
    if step == steps // 2:
        print("halfway", flush=True)
        sys.stdin.readline()
sys.exit(3)
