"""FSDP2 and tensor parallelism in two processes, started by torch.multiprocessing."""

import hashlib
import os
import sys

import torch
import torch.distributed
import torch.distributed._functional_collectives as collectives
import torch.multiprocessing
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)


def make() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def train(rank: int, port: str) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    torch.distributed.init_process_group("gloo", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    sharded = make()
    for layer in (sharded[0], sharded[2]):
        fully_shard(layer, mesh=mesh)
    fully_shard(sharded, mesh=mesh)
    parallel = parallelize_module(make(), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    digest = hashlib.sha256()
    for net in (sharded, parallel):
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for step in range(2):
            data = torch.full((3, 4), 1.0 + step)
            loss = net(data).square().mean()
            shared = collectives.all_reduce(loss.detach().reshape(1), "sum", mesh)
            scaled = shared * 0.5
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            digest.update(scaled.numpy().tobytes())
        for parameter in net.parameters():
            digest.update(parameter.to_local().detach().numpy().tobytes())
    os.write(1, f"rank {rank}: {digest.hexdigest()}\n".encode())  # whole lines of both ranks
    torch.distributed.barrier()  # gloo may abort a rank whose peers leave before it
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    torch.multiprocessing.spawn(train, (sys.argv[1],), nprocs=2)
