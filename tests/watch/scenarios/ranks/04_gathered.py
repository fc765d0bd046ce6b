import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
torch.manual_seed(0)
net = nn.Linear(4, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    x = torch.randn(3, 4)
    own = x.mean()
    if step == 1 and dist.get_rank() == 0:
        own = torch.log(-own.abs())
    means = [torch.zeros(()) for _ in range(2)]
    dist.all_gather(means, own)
    (net(x) - torch.stack(means).mean()).square().mean().backward()
    optimizer.step()
dist.barrier()
dist.destroy_process_group()
