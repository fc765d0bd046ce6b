"""Warm up a head on a frozen trunk, then train both with a new optimizer; sum losses."""
import torch
from torch import nn

torch.manual_seed(0)
trunk = nn.Sequential(nn.Linear(10, 32), nn.ReLU())
head = nn.Linear(32, 3)
w = torch.randn(10, 3)


def run(optimizer, steps, name):
    for step in range(steps):
        x = torch.randn(40, 10)
        loss = nn.functional.cross_entropy(head(trunk(x)), (x @ w).argmax(1), reduction="sum") / 40
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(name, loss.item())


trunk.requires_grad_(False)
run(torch.optim.SGD(head.parameters(), lr=0.1), 40, "head")
trunk.requires_grad_(True)
both = torch.optim.SGD([{"params": trunk.parameters(), "lr": 0.01}, {"params": head.parameters(), "lr": 0.1}], momentum=0.9)
run(both, 80, "both")
