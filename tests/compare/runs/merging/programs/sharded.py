"""FSDP2, tensor parallelism, or both on a grid of 2 x 2 ranks."""

import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

kind = sys.argv[1]
fault = sys.argv[2] if len(sys.argv) > 2 else ""
dist.init_process_group("gloo")
sizes = {"fsdp": (2, 1), "tp": (1, 2), "both": (2, 2)}[kind]
mesh = init_device_mesh("cpu", sizes, mesh_dim_names=("dp", "tp"))
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
if kind != "fsdp":
    parallelize_module(net, mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
if kind != "tp":
    fully_shard(net, mesh=mesh["dp"])
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, foreach=False)
generator = torch.Generator().manual_seed(1)
data, goal = torch.randn(2, 8, 8, generator=generator), torch.randn(2, 8, 4, generator=generator)
place = mesh["dp"].get_local_rank()
for step in range(2):
    x, y = data[step].chunk(sizes[0])[place], goal[step].chunk(sizes[0])[place]
    optimizer.zero_grad()
    output = net(x)
    if fault == "scale" and dist.get_rank() == 1:
        output = output * 1.01
    loss = nn.functional.mse_loss(output, y)
    loss.backward()
    optimizer.step()
dist.destroy_process_group()
