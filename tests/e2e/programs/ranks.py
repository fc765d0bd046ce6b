"""Trains on every rank, wrapped in DDP if there are several.

Lines are written with their ends in one piece, which print() does not do where Python does not
buffer.
"""

import os

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 2, 3)
        self.fc = nn.Linear(18, 2)

    def forward(self, x):
        return self.fc(torch.relu(self.conv1(x)).flatten(1))


torch.manual_seed(0)
net = Net()
rank = int(os.environ.get("RANK", "0"))
if "WORLD_SIZE" in os.environ:
    torch.distributed.init_process_group("gloo")
    model = nn.parallel.DistributedDataParallel(net)
else:
    model = net
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
torch.manual_seed(rank)
for _ in range(3):
    optimizer.zero_grad()
    loss = model(torch.randn(2, 1, 5, 5)).square().mean()
    loss.backward()
    optimizer.step()
    print(f"rank {rank}: {loss.item()!r}\n", end="", flush=True)
print(f"rank {rank}: {net.fc.weight.sum().item()!r}\n", end="", flush=True)
if torch.distributed.is_initialized():
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
