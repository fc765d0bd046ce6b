"""A layer of attention on one process, or data-parallel with DDP or FSDP2: torch computes some of
its values with the positions first and the samples second."""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

torch.manual_seed(0)
world, rank = int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"])
net = nn.Sequential(
    nn.Linear(6, 16),
    nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True),
    nn.Linear(16, 2),
)
model: nn.Module = net
if world > 1:
    dist.init_process_group("gloo")
    if sys.argv[1] == "fsdp2":
        fully_shard(net[1])
        fully_shard(net)
    else:
        model = nn.parallel.DistributedDataParallel(net)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
generator = torch.Generator().manual_seed(1)
mine = slice(rank * 8 // world, (rank + 1) * 8 // world)
for _ in range(2):
    x = torch.randn(8, 5, 6, generator=generator)
    y = torch.randn(8, 5, 2, generator=generator)
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x[mine]), y[mine]).backward()
    optimizer.step()
if world > 1:
    dist.destroy_process_group()
