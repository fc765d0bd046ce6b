"""Data-parallel workers with one flat message per step."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.utils import parameters_to_vector


def synchronise(parameters):
    flat = torch.cat([p.grad.flatten() for p in parameters])
    dist.all_reduce(flat)
    start = 0
    for p in parameters:
        p.grad.copy_(flat[start : start + p.numel()].view_as(p))
        start += p.numel()


dist.init_process_group("gloo")
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
parameters = list(net.parameters())
optimizer = torch.optim.SGD(parameters, lr=0.02)
draw = torch.Generator().manual_seed(10 + dist.get_rank())
for step in range(50):
    x = torch.randn(32, 8, generator=draw)
    loss = (net(x).squeeze(1) - x.sum(1)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    synchronise(parameters)
    optimizer.step()
if dist.get_rank() == 0:
    print(loss.item(), parameters_to_vector(parameters).norm().item())
dist.destroy_process_group()
