"""Trains with FSDP2 as torch recommends: made on the meta device, sharded, then given memory.

Two ranks, forked from here, for each of the given ways of observing. What a rank prints begins
with the way. Lines are written with their ends in one piece.
"""

import os
import sys
from contextlib import nullcontext
from pathlib import Path

import torch
from tests.adapters.torch.modes import observed
from torch import nn
from torch.distributed.checkpoint.state_dict import get_model_state_dict
from torch.distributed.fsdp import fully_shard


def train(way, rank):
    with torch.device("meta"):
        net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))
    for layer in (net[0], net[2], net):
        fully_shard(layer)
    net.to_empty(device="cpu")
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.fill_(0.1).mul_(torch.rand(()).item())
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.1)
    torch.manual_seed(rank)
    for step in range(3):
        optimizer.zero_grad()
        loss = net(torch.randn(2, 4)).square().mean()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        if step == 1:
            net.to(torch.float32)
        print(f"{way} rank {rank}: {loss.item()!r}\n", end="", flush=True)
    for name, value in get_model_state_dict(net).items():
        total = value.full_tensor().sum().item()
        print(f"{way} rank {rank}: {name} {total!r}\n", end="", flush=True)


def be_rank(way, rank, directory):
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{directory}/{way}.store", rank=rank, world_size=2
    )
    with nullcontext() if way == "bare" else observed(way, directory / way):
        train(way, rank)
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


directory = Path(sys.argv[1])
codes = []
for way in sys.argv[2:]:
    ranks = []
    for rank in (0, 1):
        child = os.fork()
        if child == 0:
            be_rank(way, rank, directory)
            sys.stderr.flush()
            os._exit(0)
        ranks.append(child)
    codes += [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in ranks]
sys.exit(any(codes))
