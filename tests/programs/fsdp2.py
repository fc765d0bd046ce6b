"""The recipe of FSDP2: meta device, fully_shard with mixed precision, to_empty, clipped gradients.

Started once per rank, as torchrun does."""

import os

import torch
import torch.distributed as dist
from results import FAULT_STEP, print_results
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, 2 * width)
        self.fc2 = nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.fc2(torch.relu(self.fc1(self.norm(x))))


rank = int(os.environ["RANK"])
dist.init_process_group(
    "gloo", init_method=f"file://{os.environ['STORE']}", rank=rank, world_size=2
)
with torch.device("meta"):
    model = nn.Sequential(Block(8), Block(8))
policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
for block in model:
    fully_shard(block, mp_policy=policy)
fully_shard(model, mp_policy=policy)
model.to_empty(device="cpu")
with torch.no_grad():
    for number, parameter in enumerate(model.parameters()):
        parameter.fill_(0.02 * (number % 5 + 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
torch.manual_seed(rank)
losses = []
for step in range(4):
    loss = model(torch.randn(4, 8)).float().square().mean()
    scale = 0.0 if step == FAULT_STEP else 1.0
    loss = loss * scale / torch.tensor(scale)  # FAULT
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    losses.append(loss.item())
print_results(losses, get_model_state_dict(model, options=StateDictOptions(full_state_dict=True)))
dist.barrier()
dist.destroy_process_group()
