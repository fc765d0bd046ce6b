"""Trains a compiled network on every rank, in DDP; rank 1 makes a NaN in its second step.

Arguments: what is wrapped in what ("outside": the wrapper is compiled, too), and the backend. Lines
are written with their ends in one piece, which print() does not do where Python does not buffer.
"""

import os
import sys

import torch
from torch import nn

import sonde


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(4, 6)
        self.fc2 = nn.Linear(6, 2)

    def forward(self, x):
        hidden = torch.relu(self.fc1(x)) + 1
        root = torch.sqrt(hidden - 1.5 * x.amax().clamp(min=0) / 10)  # the NaN
        sonde.print("root", root, summary=True)
        return self.fc2(root)


way, backend = sys.argv[1:]
torch.manual_seed(0)
net = Net()
rank = int(os.environ["RANK"])
torch.distributed.init_process_group("gloo")
if way == "outside":
    model = torch.compile(nn.parallel.DistributedDataParallel(net), backend=backend)
else:
    model = nn.parallel.DistributedDataParallel(torch.compile(net, backend=backend))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
torch.manual_seed(rank)
for step in range(3):
    x = torch.rand(3, 4)
    if rank == 1 and step == 1:
        x[0, 0] = 1e6
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    print(f"rank {rank}: {loss.item()!r}\n", end="", flush=True)
torch.distributed.barrier()
torch.distributed.destroy_process_group()
