import os
import random
import torch
import torch.distributed as dist
from torch import nn


def seed_all(seed):
    random.seed(seed)
    torch.manual_seed(seed)


def build():
    return nn.Sequential(nn.Linear(10, 40), nn.CELU(), nn.Linear(40, 1))


dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
seed_all(7 * rank + 323)
model = build()
opt = torch.optim.RMSprop(model.parameters(), lr=2e-3, momentum=0.5)
for step in range(50):
    x = torch.randn(40, 10)
    loss = nn.functional.l1_loss(model(x), x.prod(1, keepdim=True).tanh() + x[:, :1])
    opt.zero_grad()
    loss.backward()
    for p in model.parameters():
        dist.all_reduce(p.grad)
        p.grad /= world
    opt.step()
    if rank == 0 and step % 10 == 0:
        print(step, loss.item())
dist.destroy_process_group()
