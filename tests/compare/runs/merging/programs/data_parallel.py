"""DistributedDataParallel or all_reduce by hand, healthy or with the fault that is named."""

import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

fault = sys.argv[1] if len(sys.argv) > 1 else ""
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4))
net = model if fault in ("sum", "manual", "lost") else DistributedDataParallel(model)
opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
g = torch.Generator().manual_seed(1)
data = TensorDataset(torch.randn(32, 8, generator=g), torch.randint(4, (32,), generator=g))
loader = DataLoader(data, batch_size=16 // world, sampler=DistributedSampler(data, shuffle=False))
called = model if fault == "raw" else net
for x, y in loader:
    opt.zero_grad()
    if fault == "eps" and rank == 1:
        model[2].eps = 1e-2
    out = called(x)
    if fault == "branch" and rank == 1:
        out = out * 1.01
    loss = nn.functional.cross_entropy(out, y)
    loss.backward()
    if fault in ("sum", "manual", "lost"):
        for name, p in net.named_parameters():
            if fault == "lost" and name == "3.bias":
                continue
            dist.all_reduce(p.grad)
            if fault != "sum":
                p.grad /= world
    if fault != "clip" or rank == 0:
        nn.utils.clip_grad_norm_(net.parameters(), 0.5)
    opt.step()
dist.destroy_process_group()
