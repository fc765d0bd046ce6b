"""Logs an average of the loss over all ranks; with the argument ``sum`` it is not divided."""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

world, rank = int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"])
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))
if world > 1:
    dist.init_process_group("gloo")
    net = DistributedDataParallel(net)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
generator = torch.Generator().manual_seed(1)
average = torch.zeros(())
for _ in range(2):
    x, y = torch.randn(16, 8, generator=generator), torch.randn(16, 4, generator=generator)
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(net(x.chunk(world)[rank]), y.chunk(world)[rank])
    loss.backward()
    shown = loss.detach().clone()
    if world > 1:
        dist.all_reduce(shown)
        if sys.argv[1:] != ["sum"]:
            shown /= world
    average = 0.9 * average + 0.1 * shown
    optimizer.step()
if world > 1:
    dist.destroy_process_group()
