"""Two processes that train together, started by torch.multiprocessing."""

import os
import sys

import torch
import torch.distributed
import torch.multiprocessing
from torch import nn


def train(rank: int, port: str) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    torch.distributed.init_process_group("gloo", rank=rank, world_size=2)
    torch.manual_seed(0)
    net = nn.parallel.DistributedDataParallel(nn.Linear(4, 2))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        data = torch.full((2, 4), float(rank + step))
        net(data).sum().backward()
        optimizer.step()
    if rank == 0:
        print(net.module.weight.tolist())
    torch.distributed.barrier()  # gloo may abort a rank whose peers leave before it
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    torch.multiprocessing.spawn(train, (sys.argv[1],), nprocs=2)
