import os

import torch
import torch.distributed as dist
from torch import nn


def average_gradients(model):
    size = float(dist.get_world_size())
    for p in model.parameters():
        g = p.grad.data.clone()
        dist.all_reduce(g, op=dist.ReduceOp.SUM)
        g /= size


def run():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(12, 32), nn.ELU(), nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    data = torch.Generator().manual_seed(100 + rank)
    rule = torch.linspace(-1, 1, 12)
    for step in range(60):
        x = torch.randn(16, 12, generator=data)
        loss = ((model(x).squeeze(1) - (x @ rule)) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        average_gradients(model)
        optimizer.step()
        if step % 20 == 0 and rank == 0:
            print(step, loss.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    run()
