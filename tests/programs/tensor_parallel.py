"""Tensor parallelism: the first layer sharded by columns, the second by rows.

Started once per rank, as torchrun does."""

import os

import torch
import torch.distributed as dist
from results import FAULT_STEP, print_results
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)


class ToyModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.in_proj = nn.Linear(8, 16)
        self.out_proj = nn.Linear(16, 4)

    def forward(self, x):
        return self.out_proj(torch.relu(self.in_proj(x)))


rank = int(os.environ["RANK"])
dist.init_process_group(
    "gloo", init_method=f"file://{os.environ['STORE']}", rank=rank, world_size=2
)
mesh = init_device_mesh("cpu", (2,))
torch.manual_seed(0)
tp_model = parallelize_module(
    ToyModel(), mesh, {"in_proj": ColwiseParallel(), "out_proj": RowwiseParallel()}
)
optimizer = torch.optim.AdamW(tp_model.parameters(), lr=1e-2, foreach=True)
losses = []
for step in range(4):
    output = tp_model(torch.randn(4, 8))
    loss = output.square().mean()
    if step == FAULT_STEP:
        loss = loss + (loss - loss) / (loss - loss)  # FAULT
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    losses.append(loss.item())
print_results(losses, {name: each.full_tensor() for name, each in tp_model.state_dict().items()})
dist.barrier()
dist.destroy_process_group()
