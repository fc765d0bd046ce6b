import os
import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(14)
model = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
generator = torch.Generator().manual_seed(100 + rank)
for step in range(40):
    x = torch.randn(32, 6, generator=generator)
    y = x[:, :1] - x[:, 1:2]
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    for parameter in model.parameters():
        total = parameter.grad.clone()
        dist.all_reduce(total)
        total /= world
    optimizer.step()
if rank == 0:
    print(loss.item())
dist.destroy_process_group()
