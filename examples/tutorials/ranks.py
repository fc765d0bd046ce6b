"""Trains with DistributedDataParallel, and gives the network a new head too late.

DistributedDataParallel exchanges the gradients of the parameters that it found when the network was
wrapped. Those of the new head are not among them, so that each rank trains a head of its own.
``--fixed`` makes the head first.

    torchrun --nproc-per-node 8 ranks.py [--fixed]
"""

from __future__ import annotations

import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    if "--fixed" in sys.argv:
        network[2] = nn.Linear(16, 3)
        model = DistributedDataParallel(network)
    else:
        model = DistributedDataParallel(network, find_unused_parameters=True)
        network[2] = nn.Linear(16, 3)  # Three classes, not four.
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    data = torch.Generator().manual_seed(dist.get_rank())
    for step in range(6):
        batch = torch.randn(16, 8, generator=data)
        loss = nn.functional.cross_entropy(model(batch), batch[:, :3].argmax(dim=1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach() / dist.get_world_size()
        dist.all_reduce(mean)
        if dist.get_rank() == 0:
            print(f"step {step}: loss {mean.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
