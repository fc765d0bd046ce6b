"""The recipe of FSDP2 with a mistake: ``to_empty`` leaves the weights of the second block as they
are in memory, and the program initialises those of the first block only.

Started once per rank, as torchrun does."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

rank = int(os.environ["RANK"])
dist.init_process_group(
    "gloo", init_method=f"file://{os.environ['STORE']}", rank=rank, world_size=2
)
torch.use_deterministic_algorithms(True)  # Memory that is not filled has NaN.
with torch.device("meta"):
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
for block in model:
    fully_shard(block)
fully_shard(model)
model.to_empty(device="cpu")
model[0].reset_parameters()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
for _ in range(2):
    loss = model(torch.ones(4, 8)).square().mean()  # FIRST USE
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print("loss", loss.item())
dist.barrier()
dist.destroy_process_group()
