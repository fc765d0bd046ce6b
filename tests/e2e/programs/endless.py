"""Trains a while, with a file that says when it is half-way."""

import os
import sys
from pathlib import Path

import torch

halfway, steps = Path(sys.argv[1]), int(sys.argv[2])
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
        # Wait for the test to do its harm.
        halfway.touch()
        while os.path.exists(halfway):
            pass
sys.exit(3)
